// SPDX-License-Identifier: MIT
#include "tests/support/temp_dir.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <stdexcept>
#include <vector>

#include "agent/base/unique_fd.hpp"

namespace andiron::testing {

TempDir::TempDir() {
  const char* base = std::getenv("ANDIRON_TEST_DIR");
  std::string pattern =
      (std::filesystem::absolute(base != nullptr ? base : ".") / "andiron-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp " + pattern);
  path_ = std::filesystem::canonical(pattern);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TempDir::write(std::string_view name, std::string_view content) const {
  const std::filesystem::path target = path_ / name;
  std::filesystem::create_directories(target.parent_path());
  std::ofstream out(target, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.flush();
  if (!out) throw std::runtime_error("write " + target.string());
  return target;
}

std::filesystem::path TempDir::write_random(std::string_view name, std::uint64_t bytes) const {
  const std::filesystem::path target = path_ / name;
  std::filesystem::create_directories(target.parent_path());
  const UniqueFd fd(::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) throw std::runtime_error("open " + target.string());
  std::mt19937_64 random(bytes);
  std::vector<std::uint64_t> block(131072);
  for (std::uint64_t& word : block)
    word = random();
  for (std::uint64_t done = 0; done < bytes;) {
    block[0] = done;  // No two blocks alike.
    const std::size_t count = std::min<std::uint64_t>(bytes - done, block.size() * 8);
    const ssize_t written = ::write(fd.get(), block.data(), count);
    if (written <= 0) throw std::runtime_error("write " + target.string());
    done += static_cast<std::uint64_t>(written);
  }
  if (::fsync(fd.get()) != 0) throw std::runtime_error("fsync " + target.string());
  return target;
}

std::string bytes_of(const std::filesystem::path& path) {
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    throw std::runtime_error("read " + path.string());
  return bytes;
}

}  // namespace andiron::testing
