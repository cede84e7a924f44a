// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <system_error>

namespace andiron {

/// Andiron's own error codes. Their names are part of the API (`"error":{"code":NAME}`) and never
/// change; see error_name().
enum class Errc {
  model_not_found = 1,
  source_not_found,
  outside_roots,
  not_regular_file,
  symlink_loop,
  bad_format,
  truncated,
  incomplete_shards,
  permission_denied,
  no_budget,
  no_headroom,
  lock_limit,
  io_error,
  stale,
  cancelled,
  timeout,
  unavailable,
  bad_request,
  bad_config,
  not_found,  // no such route or job
  method_not_allowed,
  too_large,          // a request, a header, a folder past its bound
  already_running,    // another agent owns the runtime folder
  unauthorized,       // no token, or a wrong one
  too_many_requests,  // of a kind that is counted
};

const std::error_category& andiron_category() noexcept;
std::error_code make_error_code(Errc code) noexcept;

/// The stable name of a code, such as "model_not_found".
std::string_view error_name(Errc code) noexcept;

/// An expected failure, as a value: what went wrong, where, and what was being done.
/// The contexts read from the outside in: "warm model 'x': open /a/b: No such file or directory".
struct Error {
  std::error_code code;
  std::string context;
  const char* file = "";
  int line = 0;

  /// Context and the code's own words; never secrets or file contents.
  std::string message() const;

  /// The API code for it. A system error maps to the nearest one: ENOENT to source_not_found,
  /// EACCES and EPERM to permission_denied, ELOOP to symlink_loop, ETIMEDOUT to timeout, else
  /// io_error.
  Errc errc() const noexcept;
};

/// `make_error(Errc::truncated, "header of x.gguf")`. The defaults record the caller's place.
Error make_error(Errc code, std::string context, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE());

/// An error from errno or a negated `cqe->res`, which must be positive here.
Error make_system_error(int errno_value, std::string context, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE());

}  // namespace andiron

template <>
struct std::is_error_code_enum<andiron::Errc> : std::true_type {};
