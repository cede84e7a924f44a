// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace andiron::testing {

/// A folder of the test's own, removed with all that is in it.
/// On a real disk (ANDIRON_TEST_DIR, else the working folder), since tmpfs has no page cache to
/// speak of and refuses some of what is tested.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  /// Writes a file, with the folders above it, and gives its path.
  std::filesystem::path write(std::string_view name, std::string_view content) const;
  /// A file of `bytes` pseudo-random bytes (a fixed sequence), synced to the disk.
  std::filesystem::path write_random(std::string_view name, std::uint64_t bytes) const;

 private:
  std::filesystem::path path_;
};

/// What is in a file, in one read: byte by byte takes minutes where a sanitizer watches each.
std::string bytes_of(const std::filesystem::path& path);

}  // namespace andiron::testing
