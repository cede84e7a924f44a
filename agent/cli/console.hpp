// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace andiron::cli {

/// getenv(3), or a test's own.
using Environment = std::function<std::optional<std::string>(const char*)>;

/// What andironctl says, and to whom: answers to standard output, everything else to standard
/// error. Thread: one. Blocks: as the two descriptors do. On failure: remembers it and goes on
/// silently; whoever ends the program asks write_error().
class Console {
 public:
  Console(int out_fd, int err_fd, const Environment& environment);

  /// Bytes to standard output, as they are.
  void print(std::string_view text);
  /// "andironctl: MESSAGE (CODE)" to standard error; both are escaped, no code no brackets.
  void error(std::string_view message, std::string_view code = {});
  /// "warning: MESSAGE (CODE)", likewise.
  void warning(std::string_view message, std::string_view code = {});
  /// A line to standard error, escaped.
  void note(std::string_view message);
  /// Bytes to standard error, as they are: for the progress bar.
  void draw(std::string_view text);

  /// Standard output is a terminal that takes colours, and nobody said NO_COLOR.
  bool colour() const noexcept { return colour_; }
  bool out_is_terminal() const noexcept { return out_is_terminal_; }
  /// Standard error is a terminal on which a line can be drawn over: not TERM=dumb.
  bool can_redraw() const noexcept { return can_redraw_; }
  /// Columns of standard error's terminal now; 80 where it does not say.
  std::size_t columns() const noexcept;

  int out_fd() const noexcept { return out_fd_; }
  /// Nobody reads standard output any more (EPIPE). No error: `| head` ends like that.
  bool reader_gone() const noexcept { return reader_gone_; }
  /// The errno of another failure to write to standard output, such as ENOSPC; 0 for none.
  int write_error() const noexcept { return write_error_; }

 private:
  int out_fd_;
  int err_fd_;
  bool out_is_terminal_;
  bool colour_;
  bool can_redraw_;
  bool reader_gone_ = false;
  int write_error_ = 0;
};

}  // namespace andiron::cli
