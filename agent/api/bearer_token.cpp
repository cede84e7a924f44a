// SPDX-License-Identifier: MIT
#include "agent/api/bearer_token.hpp"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/os/file.hpp"

namespace andiron::api {
namespace {

// A token with white space around it. What is longer is another kind of file.
constexpr std::size_t kMaxFile = 4096;

bool may_stand_in_token(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// A buffer that a secret was read into.
struct Wiped {
  std::array<char, kMaxFile + 1> bytes;
  ~Wiped() { ::explicit_bzero(bytes.data(), bytes.size()); }
};

Error wrong(std::string what) { return make_error(Errc::bad_config, std::move(what)); }

Result<void> check_owner(int fd) {
  const os::FileInfo info = TRY(os::stat_fd(fd));
  if ((info.mode & 0077) != 0) {
    return wrong(fmt::format("its mode is {:04o}, and others than its owner must have no access",
                             info.mode & 07777));
  }
  if (info.uid != 0 && info.uid != ::geteuid()) {
    return wrong(fmt::format("it belongs to user {}, who could change it", info.uid));
  }
  return {};
}

Result<BearerToken> read_token(const std::string& path) {
  const UniqueFd fd = TRY(os::open_regular(path));
  TRY(check_owner(fd.get()));
  Wiped text;
  std::size_t size = 0;
  while (size < text.bytes.size()) {
    const ssize_t got = ::read(fd.get(), text.bytes.data() + size, text.bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_system_error(errno, "read");
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kMaxFile) return wrong("it is longer than 4096 bytes");
  return BearerToken::parse({text.bytes.data(), size});
}

}  // namespace

Result<BearerToken> BearerToken::parse(std::string_view text) {
  const std::string_view token = trimmed(text);
  if (token.empty()) return wrong("it is empty");
  if (token.size() < kMinSize) {
    return wrong(fmt::format("its token has {} characters, and needs {} to {}", token.size(),
                             kMinSize, kMaxSize));
  }
  if (token.size() > kMaxSize) {
    return wrong(
        fmt::format("its token has {} characters, and may have {}", token.size(), kMaxSize));
  }
  if (!std::all_of(token.begin(), token.end(), may_stand_in_token)) {
    return wrong("a token is one word of letters, digits and - . _ ~ + / =");
  }
  BearerToken made;
  std::copy(token.begin(), token.end(), made.bytes_.begin());
  made.size_ = token.size();
  return made;
}

Result<BearerToken> BearerToken::read(const std::string& path) {
  return read_token(path).wrap("token file '" + path + "'");
}

BearerToken::~BearerToken() { ::explicit_bzero(bytes_.data(), bytes_.size()); }

bool BearerToken::matches(std::string_view given) const noexcept {
  // Every byte is looked at, those past the token's end too, so that the time says neither where
  // the first wrong one is nor how long the token is.
  std::size_t different = size_ ^ given.size();
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    const char other = i < given.size() ? given[i] : '\0';
    different |= static_cast<unsigned char>(bytes_[i] ^ other);
  }
  return different == 0;
}

}  // namespace andiron::api
