// SPDX-License-Identifier: MIT
#include "agent/tier/copy_manifest.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <map>

#include "agent/base/json_walk.hpp"
#include "agent/base/mapped_region.hpp"
#include "agent/base/units.hpp"

namespace andiron::tier {
namespace {

constexpr std::size_t kLargest = kMiB;

template <class Number>
Result<Number> parse_number(std::string_view text, int base) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) {
    return make_error(Errc::bad_format, "no number in a manifest");
  }
  return number;
}

}  // namespace

Result<Checksums> sum_up(int fd, std::uint64_t size) {
  Checksums checksums;
  if (size == 0) return checksums;
  const MappedRegion map = TRY(MappedRegion::map_file(fd, size));
  for (std::uint64_t at = 0; at < size; at += Checksums::kChunk) {
    const auto length = static_cast<std::size_t>(std::min(Checksums::kChunk, size - at));
    checksums.sums.push_back(XXH3_64bits(map.data() + at, length));
  }
  return checksums;
}

/// Numbers as strings: some JSON readers take integers past 2^53 for floating point.
std::string to_text(const CopyManifest& manifest) {
  const os::FileIdentity& identity = manifest.identity;
  std::string sums;
  if (manifest.checksums) {
    for (const std::uint64_t sum : manifest.checksums->sums)
      sums += fmt::format("{}\"{:016x}\"", sums.empty() ? "" : ",", sum);
    sums = fmt::format(",\"chunk\":{},\"xxh3\":[{}]", Checksums::kChunk, sums);
  }
  return fmt::format(
      "{{\"source\":{},\"dev\":\"{}\",\"ino\":\"{}\",\"size\":\"{}\",\"mtime_ns\":\"{}\","
      "\"ctime_ns\":\"{}\"{}}}\n",
      quote_json(manifest.source), identity.dev, identity.ino, identity.size, identity.mtime_ns,
      identity.ctime_ns, sums);
}

Result<CopyManifest> parse_manifest(const std::string& text) {
  CopyManifest manifest;
  std::map<std::string, std::string> fields;
  std::uint64_t chunk = 0;
  const auto take = [&](const JsonEvent& event) -> Result<void> {
    if (event.kind == JsonEvent::Kind::begin_array) {
      manifest.checksums.emplace();
    } else if (event.kind == JsonEvent::Kind::natural && event.path.size() == 1) {
      if (event.path[0] == "chunk") chunk = event.number;
    } else if (event.kind == JsonEvent::Kind::string && event.path.size() == 1) {
      fields[event.path[0]] = event.text;
    } else if (event.kind == JsonEvent::Kind::string && manifest.checksums) {
      manifest.checksums->sums.push_back(TRY(parse_number<std::uint64_t>(event.text, 16)));
    }
    return {};
  };
  TRY(walk_json(text, 2, take));
  manifest.source = fields["source"];
  os::FileIdentity& identity = manifest.identity;
  identity.dev = TRY(parse_number<std::uint64_t>(fields["dev"], 10));
  identity.ino = TRY(parse_number<std::uint64_t>(fields["ino"], 10));
  identity.size = TRY(parse_number<std::uint64_t>(fields["size"], 10));
  identity.mtime_ns = TRY(parse_number<std::int64_t>(fields["mtime_ns"], 10));
  identity.ctime_ns = TRY(parse_number<std::int64_t>(fields["ctime_ns"], 10));
  // Sums of other chunks prove nothing to this version, and are made anew.
  if (chunk != Checksums::kChunk) manifest.checksums.reset();
  return manifest;
}

Result<CopyManifest> read_manifest(int fd) {
  std::string text;
  std::array<char, 65536> block{};
  for (;;) {
    const ssize_t count = ::read(fd, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return make_system_error(errno, "read a manifest");
    if (count == 0) return parse_manifest(text);
    text.append(block.data(), static_cast<std::size_t>(count));
    if (text.size() > kLargest) return make_error(Errc::too_large, "a manifest");
  }
}

}  // namespace andiron::tier
