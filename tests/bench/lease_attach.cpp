// SPDX-License-Identifier: MIT
// lease_attach SOCKET MODEL TENSOR TIMES: attaches to a lease through libandiron, looks a tensor
// up, reads its first byte, and detaches, so often. A line each: how long the attaching took, the
// first tensor after it, and the end, in milliseconds.
#include <andiron.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

bool attach(const andiron_options& options, const char* name) {
  andiron_lease* lease = nullptr;
  andiron_error error;
  const auto begin = Clock::now();
  if (andiron_lease_open(&options, &lease, &error) != 0) {
    std::fprintf(stderr, "%s: %s\n", error.code, error.message);
    return false;
  }
  const auto attached = Clock::now();
  const andiron_tensor* tensor = andiron_lease_tensor(lease, name);
  if (tensor == nullptr || tensor->bytes == 0) {
    std::fprintf(stderr, "no tensor '%s'\n", name);
    return false;
  }
  [[maybe_unused]] const volatile char first = *static_cast<const char*>(tensor->data);
  const auto found = Clock::now();
  andiron_lease_close(lease);
  std::printf("%.4f %.4f %.4f\n", ms_between(begin, attached), ms_between(attached, found),
              ms_between(found, Clock::now()));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: lease_attach SOCKET MODEL TENSOR TIMES\n");
    return 2;
  }
  andiron_options options = ANDIRON_OPTIONS_INIT;
  options.socket = argv[1];
  options.model = argv[2];
  for (int i = std::atoi(argv[4]); i > 0; --i) {
    if (!attach(options, argv[3])) return 1;
  }
  return 0;
}
