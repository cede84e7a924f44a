// SPDX-License-Identifier: MIT
#include "agent/base/error.hpp"

#include <cerrno>
#include <utility>

namespace andiron {
namespace {

struct Entry {
  Errc code;
  const char* name;
  const char* words;
};

constexpr Entry kEntries[] = {
    {Errc::model_not_found, "model_not_found", "no such model"},
    {Errc::source_not_found, "source_not_found", "source not found"},
    {Errc::outside_roots, "outside_roots", "outside the allowed roots"},
    {Errc::not_regular_file, "not_regular_file", "not a regular file"},
    {Errc::symlink_loop, "symlink_loop", "too many levels of symbolic links"},
    {Errc::bad_format, "bad_format", "malformed"},
    {Errc::truncated, "truncated", "shorter than its header says"},
    {Errc::incomplete_shards, "incomplete_shards", "shards are missing"},
    {Errc::permission_denied, "permission_denied", "permission denied"},
    {Errc::no_budget, "no_budget", "does not fit the budget"},
    {Errc::no_headroom, "no_headroom", "would leave too little memory free"},
    {Errc::lock_limit, "lock_limit", "the lock limit was reached"},
    {Errc::io_error, "io_error", "input/output error"},
    {Errc::stale, "stale", "the file changed"},
    {Errc::cancelled, "cancelled", "cancelled"},
    {Errc::timeout, "timeout", "timed out"},
    {Errc::unavailable, "unavailable", "not available here"},
    {Errc::bad_request, "bad_request", "bad request"},
    {Errc::bad_config, "bad_config", "bad configuration"},
    {Errc::not_found, "not_found", "not found"},
    {Errc::method_not_allowed, "method_not_allowed", "method not allowed"},
    {Errc::too_large, "too_large", "too large"},
    {Errc::already_running, "already_running", "already running"},
    {Errc::unauthorized, "unauthorized", "not authorized"},
    {Errc::too_many_requests, "too_many_requests", "too many requests"},
};

const Entry* find_entry(int value) noexcept {
  for (const Entry& entry : kEntries) {
    if (static_cast<int>(entry.code) == value) return &entry;
  }
  return nullptr;
}

class AndironCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "andiron"; }
  std::string message(int value) const override {
    const Entry* entry = find_entry(value);
    return entry != nullptr ? entry->words : "unknown error";
  }
};

}  // namespace

const std::error_category& andiron_category() noexcept {
  static const AndironCategory category;
  return category;
}

std::error_code make_error_code(Errc code) noexcept {
  return {static_cast<int>(code), andiron_category()};
}

std::string_view error_name(Errc code) noexcept {
  const Entry* entry = find_entry(static_cast<int>(code));
  return entry != nullptr ? entry->name : "unknown";
}

std::string Error::message() const {
  if (context.empty()) return code.message();
  return context + ": " + code.message();
}

Errc Error::errc() const noexcept {
  if (code.category() == andiron_category()) return static_cast<Errc>(code.value());
  switch (code.value()) {
    case ENOENT:
    case ENOTDIR:
      return Errc::source_not_found;
    case EACCES:
    case EPERM:
      return Errc::permission_denied;
    case ELOOP:
      return Errc::symlink_loop;
    case ETIMEDOUT:
      return Errc::timeout;
    case ECANCELED:
      return Errc::cancelled;
    default:
      return Errc::io_error;
  }
}

Error make_error(Errc code, std::string context, const char* file, int line) {
  return {make_error_code(code), std::move(context), file, line};
}

Error make_system_error(int errno_value, std::string context, const char* file, int line) {
  return {std::error_code(errno_value, std::generic_category()), std::move(context), file, line};
}

}  // namespace andiron
