// SPDX-License-Identifier: MIT
// A packet of the lease socket as a client may send it: the first byte is how many descriptors came
// with it. What is taken for a request names one thing, within bounds.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "agent/api/lease_packet.hpp"
#include "agent/base/check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace andiron;
  if (size == 0) return 0;
  const std::size_t fds = data[0] % 4U;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr std::chrono::hours kLongest{1};
  const auto request = api::parse_lease_request(text, fds, kLongest);
  if (!request) {
    CHECK(request.error().errc() == Errc::bad_request);
    CHECK(!api::refused_packet(request.error()).text.empty());
    return 0;
  }
  CHECK(fds <= 1 && (fds == 1) == request->model.empty());
  CHECK(request->model.find('\0') == std::string::npos);
  CHECK(request->wait >= std::chrono::milliseconds(0) && request->wait <= kLongest);
  return 0;
}
