// SPDX-License-Identifier: MIT
// The C ABI. Nothing is thrown through it: what memory or the standard library refuses becomes an
// andiron_error like everything else.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "client/include/andiron.h"
#include "client/lease.hpp"

struct andiron_lease {
  std::unique_ptr<andiron::client::Lease> lease;
  andiron_revoke_fn on_revoke;
  void* user;
};

namespace {

using andiron::Errc;
using andiron::Error;
using andiron::Result;
using andiron::client::Lease;
using andiron::client::LeaseRequest;
using andiron::client::Refusal;
using andiron::client::TensorTable;

constexpr char kSocket[] = "/run/andiron/lease.sock";
constexpr std::uint32_t kTimeoutMs = 5000;
// A day: no one means more, and deadlines stay far from the clock's end.
constexpr std::uint32_t kMaxMs = 86'400'000;
// What the structure had in the first version.
constexpr std::size_t kFirstOptions = offsetof(andiron_options, user) + sizeof(void*);

/// Cut to the buffer, and not within a character.
template <std::size_t N>
void put(char (&field)[N], std::string_view text) {
  std::size_t length = std::min(text.size(), N - 1);
  if (length < text.size()) {
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U)
      --length;
  }
  std::memcpy(field, text.data(), length);
  std::memset(field + length, 0, N - length);
}

int fail(andiron_error* error, std::string_view code, std::string_view message) {
  if (error != nullptr) {
    put(error->code, code);
    put(error->message, message);
  }
  return -1;
}

int fail(andiron_error* error, const Error& why) {
  // What the system says about a socket or a mapping is no source that was not found.
  const Errc errc = why.errc() == Errc::source_not_found ? Errc::io_error : why.errc();
  return fail(error, andiron::error_name(errc), why.message());
}

/// Runs what may throw.
template <class Body>
int guarded(andiron_error* error, Body body) noexcept {
  try {
    return body();
  } catch (const std::exception& thrown) {
    return fail(error, "io_error", thrown.what());
  } catch (...) {
    return fail(error, "io_error", "unknown");
  }
}

/// The caller's options as this library knows them: a shorter structure is of an earlier version,
/// and a longer one may only say what this one does anyway.
Result<andiron_options> known_options(const andiron_options* given) {
  if (given == nullptr || given->size < kFirstOptions)
    return make_error(Errc::bad_request, "options that were not made by ANDIRON_OPTIONS_INIT");
  andiron_options options = ANDIRON_OPTIONS_INIT;
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(options); i < given->size; ++i) {
    if (bytes[i] != 0) return make_error(Errc::bad_request, "options of a later version");
  }
  std::memcpy(&options, given, std::min(given->size, sizeof(options)));
  return options;
}

std::string socket_path(const andiron_options& options) {
  if (options.socket != nullptr) return options.socket;
  // Not the environment of whoever started a set-user-id program.
  const char* set = ::secure_getenv("ANDIRON_LEASE_SOCKET");
  return set != nullptr && *set != '\0' ? set : kSocket;
}

Result<LeaseRequest> request_of(const andiron_options& options) {
  const bool named = options.model != nullptr && *options.model != '\0';
  if (named == (options.source_fd >= 0))
    return make_error(Errc::bad_request, "either a model or a source_fd, and the other NULL or -1");
  if (options.wait_ms > kMaxMs || options.timeout_ms > kMaxMs)
    return make_error(Errc::bad_request, "more than a day to wait");
  LeaseRequest request;
  request.socket = socket_path(options);
  request.model = named ? options.model : "";
  request.source_fd = named ? -1 : options.source_fd;
  request.tier = options.tier != nullptr ? options.tier : "pinned-ram";
  request.wait = std::chrono::milliseconds(options.wait_ms);
  request.timeout =
      std::chrono::milliseconds(options.timeout_ms != 0 ? options.timeout_ms : kTimeoutMs);
  return request;
}

Result<Lease::Answer> open_lease(const andiron_options& options) {
  const LeaseRequest request = TRY(request_of(options));
  return Lease::open(request);
}

/// The tensors, or null, which makes every question after one of them a no.
const TensorTable* table_of(const andiron_lease* lease, andiron_error* error) noexcept {
  const TensorTable* table = nullptr;
  guarded(error, [&]() -> int {
    const auto tensors = lease->lease->tensors();
    if (!tensors) return fail(error, tensors.error());
    table = *tensors;
    return 0;
  });
  return table;
}

}  // namespace

extern "C" {

const char* andiron_version(void) { return ANDIRON_VERSION; }

int andiron_lease_open(const andiron_options* given, andiron_lease** lease, andiron_error* error) {
  if (lease == nullptr) return fail(error, "bad_request", "nowhere to put the lease");
  *lease = nullptr;
  return guarded(error, [&]() -> int {
    const Result<andiron_options> options = known_options(given);
    if (!options) return fail(error, options.error());
    Result<Lease::Answer> answer = open_lease(*options);
    if (!answer) return fail(error, answer.error());
    if (const auto* refusal = std::get_if<Refusal>(&*answer))
      return fail(error, refusal->code, refusal->message);
    auto& opened = std::get<std::unique_ptr<Lease>>(*answer);
    *lease = new andiron_lease{std::move(opened), options->on_revoke, options->user};
    return 0;
  });
}

void andiron_lease_close(andiron_lease* lease) { delete lease; }

const char* andiron_lease_model(const andiron_lease* lease) {
  return lease->lease->index().model.c_str();
}

const char* andiron_lease_tier(const andiron_lease* lease) {
  return lease->lease->index().tier.c_str();
}

uint64_t andiron_lease_number(const andiron_lease* lease) { return lease->lease->number(); }

uint64_t andiron_lease_generation(const andiron_lease* lease) { return lease->lease->generation(); }

uint64_t andiron_lease_bytes(const andiron_lease* lease) { return lease->lease->index().bytes; }

size_t andiron_lease_segment_count(const andiron_lease* lease) {
  return lease->lease->segments().size();
}

const andiron_segment* andiron_lease_segment_at(const andiron_lease* lease, size_t place) {
  const auto& segments = lease->lease->segments();
  return place < segments.size() ? &segments[place] : nullptr;
}

int andiron_lease_read_tensors(const andiron_lease* lease, andiron_error* error) {
  return table_of(lease, error) != nullptr ? 0 : -1;
}

size_t andiron_lease_tensor_count(const andiron_lease* lease) {
  const TensorTable* table = table_of(lease, nullptr);
  return table != nullptr ? table->all().size() : 0;
}

const andiron_tensor* andiron_lease_tensor_at(const andiron_lease* lease, size_t place) {
  const TensorTable* table = table_of(lease, nullptr);
  return table != nullptr && place < table->all().size() ? &table->all()[place] : nullptr;
}

const andiron_tensor* andiron_lease_tensor(const andiron_lease* lease, const char* name) {
  const TensorTable* table = name != nullptr ? table_of(lease, nullptr) : nullptr;
  return table != nullptr ? table->find(name) : nullptr;
}

int andiron_lease_poll_fd(const andiron_lease* lease) { return lease->lease->poll_fd(); }

int andiron_lease_dispatch(andiron_lease* lease, andiron_error* error) {
  return guarded(error, [&]() -> int {
    const auto heard = lease->lease->dispatch();
    if (!heard) return fail(error, heard.error());
    if (!*heard) return 0;
    // The last that is done with the lease: the callback may have closed it.
    if (lease->on_revoke != nullptr) {
      lease->on_revoke(lease, (*heard)->reason.c_str(), (*heard)->deadline_ms, lease->user);
    }
    return 1;
  });
}

int andiron_lease_revoked(const andiron_lease* lease) { return lease->lease->revoked() ? 1 : 0; }

}  // extern "C"
