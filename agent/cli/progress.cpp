// SPDX-License-Identifier: MIT
#include "agent/cli/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "agent/base/units.hpp"
#include "agent/cli/terminal_text.hpp"

namespace andiron::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kRedraw = 100ms;       // the eye takes no more
constexpr auto kRateWindow = 3s;      // see RateMeter
constexpr std::size_t kLeastBar = 8;  // below, a bar tells less than the number beside it
constexpr std::size_t kMostBar = 40;
constexpr std::string_view kGap = "  ";

std::string time_left(const Progress& p) {
  if (p.bytes_per_second <= 0 || p.done >= p.total) return {};
  const double seconds = std::ceil(static_cast<double>(p.total - p.done) / p.bytes_per_second);
  // Beyond a day it is a stall and no forecast.
  if (!(seconds < 86'400)) return {};
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 60) return fmt::format("{} s left", whole);
  return format_duration(std::chrono::milliseconds(whole * 1000)) + " left";
}

std::string bar(double fraction, std::size_t width) {
  const std::size_t inside = width - 2;
  const auto filled =
      std::min(inside, static_cast<std::size_t>(fraction * static_cast<double>(inside)));
  return '[' + std::string(filled, '#') + std::string(inside - filled, '-') + ']';
}

/// Name, an optional bar and the first `count` of `facts`, or nothing when that does not fit.
std::optional<std::string> compose(const Progress& p, double fraction,
                                   const std::vector<std::string>& facts, std::size_t count,
                                   bool with_bar, std::size_t room) {
  std::string tail;
  for (std::size_t i = 0; i < count; ++i) {
    if (!facts[i].empty()) tail += std::string(kGap) + facts[i];
  }
  const std::size_t used = display_width(p.name) + display_width(tail);
  if (!with_bar) return used <= room ? std::optional(p.name + tail) : std::nullopt;
  if (used + kGap.size() + kLeastBar > room) return std::nullopt;
  const std::size_t width = std::min(kMostBar, room - used - kGap.size());
  return p.name + std::string(kGap) + bar(fraction, width) + tail;
}

}  // namespace

std::string render_progress(const Progress& progress, std::size_t columns) {
  const std::size_t room = columns > 0 ? columns - 1 : 0;
  Progress p = progress;
  // A long name must not push out what changes.
  p.name = shorten(p.name, std::max<std::size_t>(room / 3, 12));
  if (p.total == 0) return shorten(p.name + std::string(kGap) + "waiting", room);
  const double fraction = std::min(1.0, static_cast<double>(p.done) / static_cast<double>(p.total));
  const std::vector<std::string> facts{
      fmt::format("{:3.0f} %", std::floor(fraction * 100)),
      fmt::format("{} of {}", format_bytes(p.done), format_bytes(p.total)),
      p.bytes_per_second > 0 ? format_rate(p.bytes_per_second) : std::string(), time_left(p)};
  for (std::size_t count = facts.size(); count >= 1; --count) {
    if (auto line = compose(p, fraction, facts, count, true, room)) return *line;
  }
  if (auto line = compose(p, fraction, facts, 1, false, room)) return *line;
  return shorten(fmt::format("{:.0f} %", std::floor(fraction * 100)), room);
}

void RateMeter::add(SteadyTime now, std::uint64_t done) {
  // A job that starts over (a file that changed) starts the rate over.
  if (!samples_.empty() && done < samples_.back().done) samples_.clear();
  samples_.push_back({now, done});
  while (samples_.size() > 2 && now - samples_[1].time >= kRateWindow)
    samples_.pop_front();
}

double RateMeter::bytes_per_second() const noexcept {
  if (samples_.size() < 2) return 0;
  const std::chrono::duration<double> time = samples_.back().time - samples_.front().time;
  if (time.count() <= 0) return 0;
  return static_cast<double>(samples_.back().done - samples_.front().done) / time.count();
}

void ProgressBar::update(const std::string& name, std::uint64_t done, std::uint64_t total) {
  if (!enabled_) return;
  const SteadyTime now = clock_.now();
  if (last_ && now - *last_ < kRedraw) return;
  last_ = now;
  meter_.add(now, done);
  const Progress progress{name, done, total, meter_.bytes_per_second()};
  // To the line's start, then what is new, then away with what was longer.
  console_.draw("\r" + render_progress(progress, console_.columns()) + "\x1b[K");
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) console_.draw("\r\x1b[K");
  drawn_ = false;
}

}  // namespace andiron::cli
