// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "agent/base/clock.hpp"
#include "agent/cli/console.hpp"

namespace andiron::cli {

/// One moment of long work. Bytes; a total of 0 is not known yet.
struct Progress {
  std::string name;  // escaped
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  double bytes_per_second = 0;  // 0 is not known yet
};

/// The bar for a terminal of so many columns: one line, without its newline, always narrower than
/// the terminal, since a character in the last column may wrap. What does not fit is left out, the
/// least useful first: time left, rate, bytes, bar. Pure.
std::string render_progress(const Progress& progress, std::size_t columns);

/// The rate over the last three seconds: long enough to be calm, short enough that a device which
/// slows down shows. Thread: one.
class RateMeter {
 public:
  void add(SteadyTime now, std::uint64_t done);
  /// Bytes a second; 0 until there is something to divide.
  double bytes_per_second() const noexcept;

 private:
  struct Sample {
    SteadyTime time;
    std::uint64_t done;
  };
  std::deque<Sample> samples_;
};

/// Draws a bar on standard error and takes it away again. Does nothing on anything but a terminal.
/// Thread: one. Blocks: as the terminal does.
class ProgressBar {
 public:
  ProgressBar(Console& console, const Clock& clock, bool wanted)
      : console_(console), clock_(clock), enabled_(wanted && console.can_redraw()) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// At most ten drawings a second, whoever calls how often.
  void update(const std::string& name, std::uint64_t done, std::uint64_t total);
  /// Leaves a clean line.
  void clear();

 private:
  Console& console_;
  const Clock& clock_;
  bool enabled_;
  bool drawn_ = false;
  std::optional<SteadyTime> last_;
  RateMeter meter_;
};

}  // namespace andiron::cli
