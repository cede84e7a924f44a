// SPDX-License-Identifier: MIT
#include "agent/cli/console.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "agent/cli/terminal_text.hpp"

namespace andiron::cli {
namespace {

/// All of it, or the errno that stopped it. Standard output may be non-blocking: the flag belongs
/// to the open file, which others share.
int write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

std::string labelled(std::string_view label, std::string_view message, std::string_view code) {
  if (code.empty()) return fmt::format("{}: {}\n", label, escape_text(message));
  return fmt::format("{}: {} ({})\n", label, escape_text(message), escape_text(code));
}

}  // namespace

Console::Console(int out_fd, int err_fd, const Environment& environment)
    : out_fd_(out_fd), err_fd_(err_fd), out_is_terminal_(::isatty(out_fd) == 1) {
  const std::string term = environment("TERM").value_or("dumb");
  const bool capable = !term.empty() && term != "dumb";
  const bool no_color = !environment("NO_COLOR").value_or("").empty();  // no-color.org: not empty
  colour_ = out_is_terminal_ && capable && !no_color;
  can_redraw_ = capable && ::isatty(err_fd) == 1;
}

void Console::print(std::string_view text) {
  if (reader_gone_ || write_error_ != 0) return;
  const int failure = write_all(out_fd_, text);
  if (failure == EPIPE) {
    reader_gone_ = true;
  } else {
    write_error_ = failure;
  }
}

void Console::error(std::string_view message, std::string_view code) {
  draw(labelled("andironctl", message, code));
}

void Console::warning(std::string_view message, std::string_view code) {
  draw(labelled("warning", message, code));
}

void Console::note(std::string_view message) { draw(escape_text(message) + '\n'); }

void Console::draw(std::string_view text) {
  [[maybe_unused]] const int nobody_left_to_tell = write_all(err_fd_, text);
}

std::size_t Console::columns() const noexcept {
  winsize size{};
  if (::ioctl(err_fd_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace andiron::cli
