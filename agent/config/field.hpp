// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "agent/config/diagnostics.hpp"
#include "agent/config/raw_config.hpp"

namespace andiron::config {

/// A key of a table that compiles to T, and what to do with its value.
template <class T>
struct Field {
  std::string_view key;
  void (*read)(const RawEntry& entry, T& out, Diagnostics& errors);
};

/// Adds the error for a key that `title` (as in "[[model]]") does not have.
void add_unknown_key(const RawEntry& entry, std::string_view title,
                     std::span<const std::string_view> known, Diagnostics& errors);

template <class T>
std::vector<std::string_view> keys_of(std::span<const Field<T>> fields) {
  std::vector<std::string_view> keys;
  for (const Field<T>& field : fields)
    keys.push_back(field.key);
  return keys;
}

/// Reads every key that is there; what is absent keeps the default that `out` came with.
template <class T>
void read_fields(const RawTable& table, std::string_view title, std::span<const Field<T>> fields,
                 T& out, Diagnostics& errors) {
  for (const RawEntry& entry : table) {
    bool known = false;
    for (const Field<T>& field : fields) {
      if (field.key != entry.key) continue;
      field.read(entry, out, errors);
      known = true;
    }
    if (!known) add_unknown_key(entry, title, keys_of(fields), errors);
  }
}

const RawEntry* find_entry(const RawTable& table, std::string_view key) noexcept;

}  // namespace andiron::config
