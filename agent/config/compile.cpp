// SPDX-License-Identifier: MIT
#include "agent/config/compile.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "agent/base/unique_fd.hpp"
#include "agent/config/diagnostics.hpp"
#include "agent/config/raw_config.hpp"
#include "agent/config/schema.hpp"

namespace andiron::config {
namespace {

// Room for 1,000 models with a page of companions each, several times over.
constexpr std::size_t kMaxTextBytes = kMiB;
constexpr const char* kTooLong = "is larger than 1 MiB";

Compiled failed(const std::string& file_name, Position at, std::string message) {
  Compiled result;
  result.errors.push_back({file_name, at.line, at.column, std::move(message)});
  return result;
}

/// At most one byte more than a config may have, which tells one that is too long.
Result<std::string> read_bounded(const std::string& path) {
  const auto failure = [](const char* doing) {
    return make_system_error(errno, std::string("cannot be ") + doing);
  };
  // O_NONBLOCK: to open a FIFO or a device must not hang.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return failure("opened");
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return failure("looked at");
  if (!S_ISREG(info.st_mode)) return make_error(Errc::not_regular_file, "cannot be read");

  std::string text(kMaxTextBytes + 1, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::read(fd.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure("read");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  text.resize(done);
  return text;
}

}  // namespace

Compiled compile(std::string_view text, const std::string& file_name) {
  if (text.size() > kMaxTextBytes) return failed(file_name, {}, kTooLong);
  const auto root = parse_toml(text);
  if (!root) return failed(file_name, root.error().at, root.error().message);

  Diagnostics errors(file_name);
  Compiled result;
  Settings settings = compile_tables(*root, errors);
  result.errors = std::move(errors).take();
  if (result.ok()) result.settings = std::move(settings);
  return result;
}

Compiled compile_file(const std::string& path) {
  const Result<std::string> text = read_bounded(path);
  if (!text) return failed(path, {}, text.error().message());
  return compile(*text, path);
}

}  // namespace andiron::config
