// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/core.h>

#include <string_view>

/// Logging, to stderr: one line a record, with the journal's priority prefix when stderr is the
/// journal. Only core, api and cli log above debug. Thread: any. Blocks: as stderr does.
namespace andiron::log {

enum class Level { debug, info, warning, error };

/// Once at start. `journal` writes "<6>message" as sd-daemon(3) wants it, without a time of our
/// own; else a time, a level and the message.
void start(Level level, bool journal);
bool enabled(Level level) noexcept;
void write(Level level, std::string_view message) noexcept;

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace andiron::log
