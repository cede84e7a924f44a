// SPDX-License-Identifier: MIT
#include "agent/base/log.hpp"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>

namespace andiron::log {
namespace {

constexpr std::string_view kIdentifier = "andirond";

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
char priority(Level level) noexcept {
  switch (level) {
    case Level::debug:
      return '7';
    case Level::info:
      return '6';
    case Level::warning:
      return '4';
    case Level::error:
      return '3';
  }
  return '3';
}

/// A record is one line, whatever a file is called: a newline in it would forge another record.
std::string one_line(std::string_view message) {
  std::string line;
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
    if (line.size() >= journal::kMaxMessage) break;
  }
  return line;
}

/// Where the source tree begins is of the machine that built it.
std::string_view source_path(std::string_view file) noexcept {
  const std::size_t folder = file.rfind("agent/");
  return folder == std::string_view::npos ? file : file.substr(folder);
}

/// Records on their way to the journal, without waiting for it. Thread: any.
class Journal {
 public:
  explicit Journal(std::optional<journal::Socket> socket) : socket_(std::move(socket)) {}

  void write(Level level, const Fields& fields, std::string_view line, const char* file,
             int code_line) noexcept {
    if (!send(level, fields, line, file, code_line)) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    const std::uint64_t lost = lost_.exchange(0, std::memory_order_relaxed);
    if (lost == 0) return;
    const std::string told =
        fmt::format("records that the journal had no room for, before this one: {}", lost);
    if (!send(Level::warning, {}, told, __FILE__, __LINE__)) {
      lost_.fetch_add(lost, std::memory_order_relaxed);
    }
  }

 private:
  bool send(Level level, const Fields& fields, std::string_view line, const char* file,
            int code_line) const noexcept {
    const std::string job = fields.job == 0 ? "" : fmt::format("{}", fields.job);
    const std::string place = fmt::format("{}", code_line);
    const std::string urgency(1, priority(level));
    const std::array<journal::Field, 9> record{{{"MESSAGE", line},
                                                {"PRIORITY", urgency},
                                                {"SYSLOG_IDENTIFIER", kIdentifier},
                                                {"ANDIRON_MODEL", fields.model},
                                                {"ANDIRON_EVENT", fields.event},
                                                {"ANDIRON_JOB", job},
                                                {"ANDIRON_ERROR", fields.error},
                                                {"CODE_FILE", source_path(file)},
                                                {"CODE_LINE", place}}};
    return (socket_ && socket_->send(journal::encode(record))) || send_line(level, line);
  }

  /// To the journal's stream, which has a queue of its own: short enough to go whole or not at all.
  static bool send_line(Level level, std::string_view line) noexcept {
    const std::string plain = fmt::format("<{}>{}\n", priority(level), line);
    ssize_t sent = 0;
    do {
      sent = ::send(STDERR_FILENO, plain.data(), plain.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == static_cast<ssize_t>(plain.size());
  }

  const std::optional<journal::Socket> socket_;
  std::atomic<std::uint64_t> lost_{0};
};

// A process has one standard error, and so one of these; they are made before the first thread.
std::unique_ptr<spdlog::logger> g_logger;
std::unique_ptr<Journal> g_journal;
std::atomic<Level> g_level{Level::warning};

}  // namespace

void start(Level level, std::string_view journal_stream, std::string_view journal_socket) {
  g_level = level;
  g_journal.reset();
  if (journal::is_stream(journal_stream, STDERR_FILENO)) {
    std::optional<journal::Socket> socket;
    if (auto made = journal::Socket::create(journal_socket)) socket.emplace(std::move(*made));
    g_journal = std::make_unique<Journal>(std::move(socket));
    return;
  }
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  g_logger = std::make_unique<spdlog::logger>("andiron", std::move(sink));
  g_logger->set_level(spdlog::level::debug);
  g_logger->flush_on(spdlog::level::debug);
  g_logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l: %v");
}

bool enabled(Level level) noexcept { return level >= g_level.load(std::memory_order_relaxed); }

void write(Level level, const Fields& fields, std::string_view message, const char* file,
           int line) noexcept {
  if (!enabled(level) || (!g_journal && !g_logger)) return;
  const std::string text = one_line(message);
  if (g_journal) {
    g_journal->write(level, fields, text, file, line);
  } else {
    g_logger->log(spdlog_level(level), text);
  }
}

}  // namespace andiron::log
