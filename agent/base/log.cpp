// SPDX-License-Identifier: MIT
#include "agent/base/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <memory>

namespace andiron::log {
namespace {

// A process has one standard error, and so one logger; it is made before the first thread.
std::unique_ptr<spdlog::logger> g_logger;
std::atomic<Level> g_level{Level::warning};
std::atomic<bool> g_journal{false};

spdlog::level::level_enum spdlog_level(Level level) noexcept {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// syslog(3) priorities.
const char* journal_prefix(Level level) noexcept {
  switch (level) {
    case Level::debug:
      return "<7>";
    case Level::info:
      return "<6>";
    case Level::warning:
      return "<4>";
    case Level::error:
      return "<3>";
  }
  return "<3>";
}

}  // namespace

void start(Level level, bool journal) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  g_logger = std::make_unique<spdlog::logger>("andiron", std::move(sink));
  g_logger->set_level(spdlog::level::debug);
  g_logger->flush_on(spdlog::level::debug);
  g_logger->set_pattern(journal ? "%v" : "%Y-%m-%dT%H:%M:%S.%e %l: %v");
  g_level = level;
  g_journal = journal;
}

bool enabled(Level level) noexcept { return level >= g_level.load(std::memory_order_relaxed); }

void write(Level level, std::string_view message) noexcept {
  if (!g_logger || !enabled(level)) return;
  // A record is one line, whatever a file is called: a newline in it would forge another record.
  std::string line(g_journal ? journal_prefix(level) : "");
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  g_logger->log(spdlog_level(level), line);
}

}  // namespace andiron::log
