// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "agent/base/journal.hpp"

/// Logging: one record a call, to the journal with its fields where stderr is the journal, else one
/// line to stderr. Only core, api and cli log above debug.
/// Thread: any. Blocks: as stderr does; never where that is the journal.
namespace andiron::log {

enum class Level { debug, info, warning, error };

/// What a record is about, for who looks for it: `journalctl ANDIRON_MODEL=assistant`. What is
/// empty is left out. `log::info({.model = record.name}, "{}: let go", record.name)`
struct Fields {
  std::string_view model = {};  // ANDIRON_MODEL
  std::string_view event = {};  // ANDIRON_EVENT, a type of the API's events: "model.evicted"
  std::uint64_t job = 0;        // ANDIRON_JOB
  std::string_view error = {};  // ANDIRON_ERROR, the stable name of a code: error_name()
};

/// Once at start, before there are threads. Where `journal_stream`, of the environment, says that
/// stderr is the journal, records go to the journal's socket; those that it does not take go to
/// stderr, with the priority prefix of sd-daemon(3); and those that find no room there either are
/// counted, and the count is told later. Where it does not, records go to stderr with a time and a
/// level, and without fields.
void start(Level level, std::string_view journal_stream,
           std::string_view journal_socket = journal::Socket::kPath);

/// A format string that was checked when it was compiled, with the place where it stands.
template <class... Args>
struct Format {
  template <class Text>
  requires std::is_convertible_v<const Text&, std::string_view>
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is to be one.
  consteval Format(const Text& literal, const char* file_ = __builtin_FILE(),
                   int line_ = __builtin_LINE())
      : text(literal), file(file_), line(line_) {}

  fmt::format_string<Args...> text;
  const char* file;  // CODE_FILE
  int line;          // CODE_LINE
};

bool enabled(Level level) noexcept;
void write(Level level, const Fields& fields, std::string_view message, const char* file,
           int line) noexcept;

// Each level has two forms: with fields, and without.

template <class... Args>
void debug(const Fields& fields, Format<std::type_identity_t<Args>...> format, Args&&... args) {
  if (!enabled(Level::debug)) return;
  write(Level::debug, fields, fmt::format(format.text, std::forward<Args>(args)...), format.file,
        format.line);
}
template <class... Args>
void debug(Format<std::type_identity_t<Args>...> format, Args&&... args) {
  debug<Args...>(Fields(), format, std::forward<Args>(args)...);
}
template <class... Args>
void info(const Fields& fields, Format<std::type_identity_t<Args>...> format, Args&&... args) {
  if (!enabled(Level::info)) return;
  write(Level::info, fields, fmt::format(format.text, std::forward<Args>(args)...), format.file,
        format.line);
}
template <class... Args>
void info(Format<std::type_identity_t<Args>...> format, Args&&... args) {
  info<Args...>(Fields(), format, std::forward<Args>(args)...);
}
template <class... Args>
void warning(const Fields& fields, Format<std::type_identity_t<Args>...> format, Args&&... args) {
  write(Level::warning, fields, fmt::format(format.text, std::forward<Args>(args)...), format.file,
        format.line);
}
template <class... Args>
void warning(Format<std::type_identity_t<Args>...> format, Args&&... args) {
  warning<Args...>(Fields(), format, std::forward<Args>(args)...);
}
template <class... Args>
void error(const Fields& fields, Format<std::type_identity_t<Args>...> format, Args&&... args) {
  write(Level::error, fields, fmt::format(format.text, std::forward<Args>(args)...), format.file,
        format.line);
}
template <class... Args>
void error(Format<std::type_identity_t<Args>...> format, Args&&... args) {
  error<Args...>(Fields(), format, std::forward<Args>(args)...);
}

}  // namespace andiron::log
