// SPDX-License-Identifier: MIT
#include "agent/os/pressure.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <optional>

#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

/// "some avg10=0.12 avg60=0.05 avg300=0.01 total=123456"
std::optional<PressureLine> parse_line(const std::vector<std::string_view>& words) {
  PressureLine line;
  bool total = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = words[i].substr(0, equals);
    const std::string_view value = words[i].substr(equals + 1);
    if (key == "total") {
      const std::optional<std::uint64_t> number = parse_number(value);
      if (!number) return std::nullopt;
      line.total_us = *number;
      total = true;
      continue;
    }
    double share = 0;
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), share, std::chars_format::fixed);
    if (error != std::errc{} || end != value.data() + value.size()) return std::nullopt;
    if (key == "avg10") line.avg10 = share;
    if (key == "avg60") line.avg60 = share;
    if (key == "avg300") line.avg300 = share;
  }
  if (!total) return std::nullopt;
  return line;
}

/// Where the kernel has no PSI the files are missing; where it is off (psi=0), they open and
/// refuse: neither is an error of ours.
Error unavailable(const Error& error) {
  const int value = error.code.category() == std::generic_category() ? error.code.value() : 0;
  if (value == ENOENT || value == EOPNOTSUPP) {
    return make_error(Errc::unavailable, "PSI: " + error.message());
  }
  return error;
}

}  // namespace

Result<Pressure> read_pressure(const std::string& resource, const std::string& proc_root) {
  const std::string path = fmt::format("{}/pressure/{}", proc_root, resource);
  const Result<std::string> text = read_text(path);
  if (!text) return unavailable(text.error());
  Pressure pressure;
  bool some = false;
  for (const std::string_view row : split(*text, '\n')) {
    const std::vector<std::string_view> words = fields(row);
    if (words.empty()) continue;
    const std::optional<PressureLine> line = parse_line(words);
    if (!line) return make_error(Errc::bad_format, path);
    if (words[0] == "some") {
      pressure.some = *line;
      some = true;
    } else if (words[0] == "full") {
      pressure.full = *line;
    }
  }
  if (!some) return make_error(Errc::bad_format, path);
  return pressure;
}

Result<UniqueFd> arm_pressure_trigger(const std::string& resource, std::chrono::microseconds stall,
                                      std::chrono::microseconds window) {
  const std::string path = "/proc/pressure/" + resource;
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return unavailable(make_system_error(errno, "open " + path));
  const std::string text = fmt::format("some {} {}", stall.count(), window.count());
  // With its NUL: the kernel overwrites the last byte that it is given.
  if (::write(fd.get(), text.c_str(), text.size() + 1) < 0) {
    return unavailable(make_system_error(errno, "write \"" + text + "\" to " + path));
  }
  return fd;
}

}  // namespace andiron::os
