// SPDX-License-Identifier: MIT
#include "agent/os/text_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "agent/base/unique_fd.hpp"

namespace andiron::os {

Result<std::string> read_text(const std::string& path, std::size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) return make_system_error(errno, "open " + path);
  std::string text;
  // Larger than a page: /proc gives up to a page or a buffer of ours at a time.
  std::array<char, 16384> buffer{};
  for (;;) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return make_system_error(errno, "read " + path);
    if (count == 0) return text;
    if (text.size() + static_cast<std::size_t>(count) > limit) {
      return make_error(Errc::too_large, path);
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

std::optional<std::string> read_word(const std::string& path) {
  const Result<std::string> text = read_text(path);
  if (!text) return std::nullopt;
  return std::string(trim(*text));
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const std::optional<std::string> word = read_word(path);
  if (!word) return std::nullopt;
  return parse_number(*word);
}

std::optional<std::uint64_t> parse_number(std::string_view text, int base) {
  text = trim(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n\r") - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> fields(std::string_view line) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t first = line.find_first_not_of(" \t\n\r");
    if (first == std::string_view::npos) return parts;
    line.remove_prefix(first);
    const std::size_t length = line.find_first_of(" \t\n\r");
    parts.push_back(line.substr(0, length));
    if (length == std::string_view::npos) return parts;
    line.remove_prefix(length);
  }
}

}  // namespace andiron::os
