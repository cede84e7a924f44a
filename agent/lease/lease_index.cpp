// SPDX-License-Identifier: MIT
#include "agent/lease/lease_index.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "agent/base/check.hpp"
#include "agent/base/json_walk.hpp"
#include "agent/catalog/resolved_json.hpp"
#include "agent/catalog/weights_header.hpp"

namespace andiron::lease {
namespace {

void add(std::string& out, std::string_view key, std::string value) {
  out += ",\"";
  out += key;
  out += "\":";
  out += value;
}

std::string file_json(const LeasedFile& file) {
  std::string out = "{\"name\":" + quote_json(file.name);
  add(out, "bytes", std::to_string(file.identity.size));
  add(out, "companion", file.companion ? "true" : "false");
  const os::FileIdentity& id = file.identity;
  std::string identity = "{\"dev\":" + std::to_string(id.dev);
  add(identity, "ino", std::to_string(id.ino));
  add(identity, "size", std::to_string(id.size));
  add(identity, "mtime_ns", std::to_string(id.mtime_ns));
  add(identity, "ctime_ns", std::to_string(id.ctime_ns));
  add(out, "identity", identity + '}');
  return out + '}';
}

std::string segment_json(std::size_t place, std::uint64_t bytes) {
  std::string out = "{\"file\":" + std::to_string(place);
  add(out, "file_offset", "0");
  add(out, "bytes", std::to_string(bytes));
  add(out, "transport", "\"file-fd\"");
  add(out, "fd", std::to_string(place + 1));
  add(out, "offset", "0");
  return out + '}';
}

Result<std::string> index_text(const IndexRequest& request) {
  CHECK(request.files.size() == request.copies.size());
  std::uint64_t bytes = 0;
  std::string files;
  std::string segments;
  std::string tensors;
  for (std::size_t i = 0; i < request.files.size(); ++i) {
    const LeasedFile& file = request.files[i];
    const char* comma = i == 0 ? "" : ",";
    bytes += file.identity.size;
    files += comma + file_json(file);
    segments += comma + segment_json(i, file.identity.size);
    if (file.companion) continue;
    const auto header =
        TRY(catalog::read_tensors(request.copies[i].get(), file.identity.size, file.name));
    for (const catalog::Tensor& tensor : header) {
      if (!tensors.empty()) tensors += ',';
      catalog::write_tensor(tensors, tensor, "segment", std::to_string(i));
    }
  }
  std::string out = "{\"model\":" + quote_json(request.model);
  add(out, "generation", std::to_string(request.generation));
  add(out, "tier", "\"pinned-ram\"");
  add(out, "bytes", std::to_string(bytes));
  add(out, "files", '[' + files + ']');
  add(out, "segments", '[' + segments + ']');
  add(out, "tensors", '[' + tensors + ']');
  return out + '}';
}

}  // namespace

Result<UniqueFd> make_index(const IndexRequest& request) {
  const std::string text = TRY(index_text(request));
  UniqueFd fd(::memfd_create("andiron-lease-index", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return make_system_error(errno, "memfd_create");
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(fd.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return make_system_error(written < 0 ? errno : ENOSPC, "write a memfd");
    done += static_cast<std::size_t>(written);
  }
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return make_system_error(errno, "seal a memfd");
  return fd;
}

Result<UniqueFd> open_index(const UniqueFd& index) {
  const std::string path = "/proc/self/fd/" + std::to_string(index.get());
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return make_system_error(errno, "open a memfd");
  return fd;
}

}  // namespace andiron::lease
