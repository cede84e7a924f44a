// SPDX-License-Identifier: MIT
#include "agent/config/read_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "agent/config/utf8.hpp"

namespace andiron::config {
namespace {

constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxList = 256;  // allow_roots, also: more is a folder or a glob
constexpr std::size_t kMaxName = 128;

std::string named(std::string_view key, std::string_view problem) {
  return fmt::format("\"{}\" {}", key, problem);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ')
    text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ')
    text.remove_suffix(1);
  return text;
}

/// `text` ends in '%'.
std::optional<double> parse_percent(std::string_view text) {
  const std::string_view number = trimmed(text.substr(0, text.size() - 1));
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value,
                                            std::chars_format::fixed);
  if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  if (!(value > 0 && value <= 100)) return std::nullopt;  // NaN too
  return value;
}

}  // namespace

std::string_view kind_of(const RawValue& value) noexcept {
  // In the order of the variant.
  constexpr std::array<std::string_view, std::variant_size_v<decltype(value.data)>> kKinds{
      "a date or time", "true or false", "a whole number", "a decimal number",
      "a string",       "an array",      "a table"};
  return kKinds[value.data.index()];
}

void add_error(const RawEntry& entry, std::string_view problem, Diagnostics& errors) {
  errors.add(entry.value.at, named(entry.key, problem));
}

void add_wrong_type(const RawEntry& entry, std::string_view expected, Diagnostics& errors) {
  add_error(entry, fmt::format("must be {}, not {}", expected, kind_of(entry.value)), errors);
}

std::optional<std::string> read_text(const RawValue& value, std::string_view key,
                                     Diagnostics& errors) {
  const auto* text = std::get_if<std::string>(&value.data);
  if (text == nullptr) {
    errors.add(value.at, named(key, fmt::format("must be a string, not {}", kind_of(value))));
    return std::nullopt;
  }
  if (text->size() > kMaxText) {
    errors.add(value.at, named(key, fmt::format("is longer than {} bytes", kMaxText)));
    return std::nullopt;
  }
  if (std::any_of(text->begin(), text->end(), is_control)) {
    errors.add(value.at, named(key, "must not contain control characters"));
    return std::nullopt;
  }
  return *text;
}

std::optional<std::string> read_text(const RawEntry& entry, Diagnostics& errors) {
  return read_text(entry.value, entry.key, errors);
}

std::optional<std::vector<PlacedText>> read_text_list(const RawEntry& entry, Diagnostics& errors) {
  const auto* values = std::get_if<RawArray>(&entry.value.data);
  if (values == nullptr) {
    add_wrong_type(entry, "an array of strings", errors);
    return std::nullopt;
  }
  if (values->size() > kMaxList) {
    add_error(entry, fmt::format("has more than {} elements", kMaxList), errors);
    return std::nullopt;
  }
  std::vector<PlacedText> texts;
  for (const RawValue& value : *values) {
    auto text = read_text(value, entry.key, errors);
    if (text) texts.push_back({value.at, std::move(*text)});
  }
  return texts;
}

void read_bool(const RawEntry& entry, bool& out, Diagnostics& errors) {
  if (const bool* value = std::get_if<bool>(&entry.value.data)) {
    out = *value;
  } else {
    add_wrong_type(entry, "true or false", errors);
  }
}

std::optional<Bytes> read_bytes(const RawEntry& entry, Diagnostics& errors) {
  if (const auto* count = std::get_if<std::int64_t>(&entry.value.data)) {
    if (*count >= 0) return Bytes{static_cast<std::uint64_t>(*count)};
    add_error(entry, "must not be negative", errors);
    return std::nullopt;
  }
  if (!std::holds_alternative<std::string>(entry.value.data)) {
    add_wrong_type(entry, "a size such as \"24GiB\"", errors);
    return std::nullopt;
  }
  const auto text = read_text(entry, errors);
  if (!text) return std::nullopt;
  // Before the parser quotes it whole.
  if (text->size() > 64) {
    add_error(entry, "must be a size such as \"24GiB\", not " + in_quotes(*text), errors);
    return std::nullopt;
  }
  const Result<Bytes> bytes = parse_bytes(*text);
  if (bytes) return *bytes;
  add_error(entry, "is no " + bytes.error().context, errors);
  return std::nullopt;
}

std::optional<Amount> read_amount(const RawEntry& entry, Diagnostics& errors) {
  if (const auto* text = std::get_if<std::string>(&entry.value.data)) {
    const std::string_view body = trimmed(*text);
    if (!body.empty() && body.back() == '%') {
      const auto percent = parse_percent(body);
      if (percent) return Amount{percent, {}};
      add_error(entry, "must be more than 0% and at most 100%, not " + in_quotes(*text), errors);
      return std::nullopt;
    }
  }
  const auto bytes = read_bytes(entry, errors);
  if (!bytes) return std::nullopt;
  return Amount{std::nullopt, *bytes};
}

namespace {
bool is_auto(const RawEntry& entry) {
  const auto* text = std::get_if<std::string>(&entry.value.data);
  return text != nullptr && *text == "auto";
}
}  // namespace

void read_auto_or_bytes(const RawEntry& entry, std::optional<Bytes>& out, Diagnostics& errors) {
  out = is_auto(entry) ? std::nullopt : read_bytes(entry, errors);
}

void read_auto_or_amount(const RawEntry& entry, std::optional<Amount>& out, Diagnostics& errors) {
  out = is_auto(entry) ? std::nullopt : read_amount(entry, errors);
}

void read_name(const RawEntry& entry, std::string& out, Diagnostics& errors) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
  const auto text = read_text(entry, errors);
  if (!text) return;
  if (text->empty() || text->size() > kMaxName ||
      text->find_first_not_of(kLetters) != std::string::npos) {
    add_error(entry,
              fmt::format("must be 1 to {} of the characters A-Z a-z 0-9 . _ : -, not {}", kMaxName,
                          in_quotes(*text)),
              errors);
    return;
  }
  out = *text;
}

std::optional<std::string> clean_absolute_path(std::string_view path) {
  if (path.empty() || path.front() != '/') return std::nullopt;
  std::string result;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part == "..") return std::nullopt;
    if (!part.empty() && part != ".") (result += '/') += part;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return result.empty() ? "/" : result;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known) {
  const auto near = nearest_name(name, known);
  return near ? fmt::format("; did you mean {}?", in_quotes(*near)) : "";
}

}  // namespace andiron::config
