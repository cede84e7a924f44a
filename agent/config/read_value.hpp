// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/nearest_name.hpp"
#include "agent/config/diagnostics.hpp"
#include "agent/config/raw_config.hpp"
#include "agent/config/settings.hpp"

// One value of the TOML text to one value with a unit. Each takes the entry for its key and place,
// and gives nullopt (or leaves `out` as it was) after it has added what is wrong.
namespace andiron::config {

/// "a string", "an array", ...
std::string_view kind_of(const RawValue& value) noexcept;

void add_error(const RawEntry& entry, std::string_view problem, Diagnostics& errors);
void add_wrong_type(const RawEntry& entry, std::string_view expected, Diagnostics& errors);

/// Text of at most 4,096 bytes (PATH_MAX) without control characters. `key` is for messages.
std::optional<std::string> read_text(const RawValue& value, std::string_view key,
                                     Diagnostics& errors);
std::optional<std::string> read_text(const RawEntry& entry, Diagnostics& errors);

/// Elements that are no good text are reported and left out; nullopt where it is no array.
/// `at` gets the place of each.
struct PlacedText {
  Position at;
  std::string text;
};
std::optional<std::vector<PlacedText>> read_text_list(const RawEntry& entry, Diagnostics& errors);

void read_bool(const RawEntry& entry, bool& out, Diagnostics& errors);

/// "24GiB", or a whole number of bytes.
std::optional<Bytes> read_bytes(const RawEntry& entry, Diagnostics& errors);
/// The same, and "50%".
std::optional<Amount> read_amount(const RawEntry& entry, Diagnostics& errors);
/// The same, and "auto" for nullopt in `out`.
void read_auto_or_bytes(const RawEntry& entry, std::optional<Bytes>& out, Diagnostics& errors);
void read_auto_or_amount(const RawEntry& entry, std::optional<Amount>& out, Diagnostics& errors);

/// The name of a model or tenant: [A-Za-z0-9._:-]+, at most 128 characters.
void read_name(const RawEntry& entry, std::string& out, Diagnostics& errors);

/// `path` with single slashes, none at its end, and without "." parts; nullopt where it is not
/// absolute or has ".." in it (whose meaning depends on symlinks).
std::optional<std::string> clean_absolute_path(std::string_view path);

std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known);

template <class Enum>
using Choices = std::initializer_list<std::pair<std::string_view, Enum>>;

template <class Enum>
void read_choice(const RawEntry& entry, Choices<Enum> choices, Enum& out, Diagnostics& errors) {
  const std::optional<std::string> text = read_text(entry, errors);
  if (!text) return;
  std::vector<std::string_view> names;
  for (const auto& [name, value] : choices) {
    if (name == *text) {
      out = value;
      return;
    }
    names.push_back(name);
  }
  add_error(entry,
            "must be " + one_of(names) + ", not " + in_quotes(*text) + did_you_mean(*text, names),
            errors);
}

}  // namespace andiron::config
