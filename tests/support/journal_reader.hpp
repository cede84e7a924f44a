// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace andiron::testing {

/// A record as journald would read it: the other side of journal::encode, by the protocol's page.
/// nullopt where the datagram breaks the protocol, or has a field twice.
inline std::optional<std::map<std::string, std::string>> read_journal_record(
    std::string_view datagram) {
  std::map<std::string, std::string> fields;
  while (!datagram.empty()) {
    const std::size_t end = datagram.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = datagram.substr(0, end);
    datagram.remove_prefix(end + 1);
    const std::size_t equals = line.find('=');
    const std::string name(line.substr(0, equals));
    std::string value;
    if (equals != std::string_view::npos) {
      value = line.substr(equals + 1);
    } else {
      if (datagram.size() < 8) return std::nullopt;
      std::size_t size = 0;
      for (std::size_t i = 8; i-- > 0;)
        size = size * 256 + static_cast<unsigned char>(datagram[i]);
      datagram.remove_prefix(8);
      if (datagram.size() <= size || datagram[size] != '\n') return std::nullopt;
      value = datagram.substr(0, size);
      datagram.remove_prefix(size + 1);
    }
    if (name.empty() || !fields.emplace(name, value).second) return std::nullopt;
  }
  return fields;
}

}  // namespace andiron::testing
