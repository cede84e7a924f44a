// SPDX-License-Identifier: MIT
#include "client/lease_index.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <string_view>
#include <utility>

#include "agent/base/json_walk.hpp"

namespace andiron::client {
namespace {

// A tensor takes some 150 bytes there, and the agent takes no file with more than a million.
constexpr std::uint64_t kMaxIndexBytes = 256ULL << 20;
constexpr std::size_t kMaxTensors = 2'000'000;
// The agent's own bound is far lower.
constexpr std::size_t kMaxFiles = 100'000;
// No tensor library goes past 64.
constexpr std::size_t kMaxDimensions = 64;
constexpr std::size_t kDepth = 16;
// Offsets are off_t to the system.
constexpr auto kMaxOffset = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Error bad(const std::string& what) {
  return make_error(Errc::bad_format, "the lease's index: " + what);
}

/// begin + length, where that neither overflows nor passes `limit`.
bool fits(std::uint64_t begin, std::uint64_t length, std::uint64_t limit) {
  return length <= limit && begin <= limit - length;
}

class Reader {
 public:
  Result<void> visit(const JsonEvent& event);
  Result<LeaseIndex> finish();

 private:
  using Kind = JsonEvent::Kind;
  template <class T>
  Result<void> begin_entry(std::vector<T>& list, std::size_t limit);
  Result<void> set(std::string& field, const JsonEvent& event);
  Result<void> set(std::uint64_t& field, const JsonEvent& event);
  Result<void> head(const JsonEvent& event, const std::string& key);
  Result<void> file(const JsonEvent& event, const std::string& key);
  Result<void> segment(const JsonEvent& event, const std::string& key);
  Result<void> tensor(const JsonEvent& event, const std::string& key);
  Result<void> check_segments() const;
  Result<void> check_tensors() const;

  LeaseIndex index_;
};

template <class T>
Result<void> Reader::begin_entry(std::vector<T>& list, std::size_t limit) {
  if (list.size() == limit) return make_error(Errc::too_large, "the lease's index");
  list.emplace_back();
  return {};
}

Result<void> Reader::set(std::string& field, const JsonEvent& event) {
  // It becomes a C string.
  if (event.kind != Kind::string || event.text.find('\0') != std::string_view::npos)
    return bad("'" + event.path.back() + "' is no string");
  field = event.text;
  return {};
}

Result<void> Reader::set(std::uint64_t& field, const JsonEvent& event) {
  if (event.kind != Kind::natural || event.number > kMaxOffset)
    return bad("'" + event.path.back() + "' is no size");
  field = event.number;
  return {};
}

Result<void> Reader::visit(const JsonEvent& event) {
  const std::vector<std::string>& path = event.path;
  if (path.empty()) {
    if (event.kind == Kind::begin_object || event.kind == Kind::end_object) return {};
    return bad("no object");
  }
  const std::string& list = path[0];
  if (path.size() == 1) return head(event, list);
  if (list != "files" && list != "segments" && list != "tensors") return {};
  if (path.size() == 2) {
    if (event.kind == Kind::end_object) return {};
    if (event.kind != Kind::begin_object || !path[1].empty())
      return bad("'" + list + "' is no list of objects");
    if (list == "files") return begin_entry(index_.files, kMaxFiles);
    if (list == "segments") return begin_entry(index_.segments, kMaxFiles);
    return begin_entry(index_.tensors, kMaxTensors);
  }
  if (list == "files") return file(event, path[2]);
  if (list == "segments") return segment(event, path[2]);
  return tensor(event, path[2]);
}

Result<void> Reader::head(const JsonEvent& event, const std::string& key) {
  if (key == "model") return set(index_.model, event);
  if (key == "tier") return set(index_.tier, event);
  if (key == "generation") return set(index_.generation, event);
  if (key == "bytes") return set(index_.bytes, event);
  return {};
}

Result<void> Reader::file(const JsonEvent& event, const std::string& key) {
  LeaseIndex::File& file = index_.files.back();
  if (event.path.size() != 3) return {};
  if (key == "name") return set(file.name, event);
  if (key == "bytes") return set(file.bytes, event);
  return {};
}

Result<void> Reader::segment(const JsonEvent& event, const std::string& key) {
  LeaseIndex::Segment& segment = index_.segments.back();
  if (event.path.size() != 3) return {};
  if (key == "file") return set(segment.file, event);
  if (key == "file_offset") return set(segment.file_offset, event);
  if (key == "bytes") return set(segment.bytes, event);
  if (key == "fd") return set(segment.fd, event);
  if (key == "offset") return set(segment.offset, event);
  if (key == "transport") return set(segment.transport, event);
  return {};
}

Result<void> Reader::tensor(const JsonEvent& event, const std::string& key) {
  LeaseIndex::Tensor& tensor = index_.tensors.back();
  if (key == "shape") {
    if (event.kind == Kind::begin_array && event.path.size() == 3) tensor.shape.clear();
    if (event.kind == Kind::begin_array || event.kind == Kind::end_array) {
      return event.path.size() == 3 ? Result<void>() : bad("a shape of shapes");
    }
    if (event.kind != Kind::natural || event.path.size() != 4 ||
        tensor.shape.size() == kMaxDimensions)
      return bad("'shape' is no list of a few whole numbers");
    tensor.shape.push_back(event.number);
    return {};
  }
  if (event.path.size() != 3) return {};
  if (key == "name") return set(tensor.name, event);
  if (key == "dtype") return set(tensor.dtype, event);
  if (key == "segment") return set(tensor.segment, event);
  if (key == "offset") return set(tensor.offset, event);
  if (key == "bytes") return set(tensor.bytes, event);
  return {};
}

Result<void> Reader::check_segments() const {
  std::uint64_t total = 0;
  for (const LeaseIndex::Segment& segment : index_.segments) {
    if (segment.file >= index_.files.size()) return bad("a segment of no file");
    if (!fits(segment.file_offset, segment.bytes, index_.files[segment.file].bytes))
      return bad("a segment past its file's end");
    if (segment.fd == 0) return bad("a segment without a descriptor");
    if (!fits(segment.offset, segment.bytes, kMaxOffset)) return bad("an offset past all bounds");
    if (segment.transport != "file-fd") {
      return make_error(Errc::unavailable,
                        "a way of handing over that this library does not know: " +
                            segment.transport.substr(0, 32));
    }
    if (__builtin_add_overflow(total, segment.bytes, &total))
      return bad("more bytes than there are");
  }
  return {};
}

Result<void> Reader::check_tensors() const {
  for (const LeaseIndex::Tensor& tensor : index_.tensors) {
    if (tensor.segment >= index_.segments.size()) return bad("a tensor in no segment");
    if (!fits(tensor.offset, tensor.bytes, index_.segments[tensor.segment].bytes))
      return bad("a tensor past its segment's end");
  }
  return {};
}

Result<LeaseIndex> Reader::finish() {
  TRY(check_segments());
  TRY(check_tensors());
  return std::move(index_);
}

Result<std::string> read_all(int fd) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return make_system_error(errno, "the lease's index");
  if (!S_ISREG(found.st_mode)) return bad("no file");
  const auto size = static_cast<std::uint64_t>(found.st_size);
  if (size > kMaxIndexBytes) return make_error(Errc::too_large, "the lease's index");
  // Read and not mapped: what is checked stays what is used, whoever may write to it.
  std::string text(static_cast<std::size_t>(size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got =
        ::pread(fd, text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_system_error(errno, "read the lease's index");
    if (got == 0) return bad("shorter than it was");
    have += static_cast<std::size_t>(got);
  }
  return text;
}

}  // namespace

Result<LeaseIndex> parse_index(std::string_view text) {
  Reader reader;
  Result<void> walked =
      walk_json(text, kDepth, [&](const JsonEvent& event) { return reader.visit(event); });
  TRY(std::move(walked).wrap("the lease's index"));
  return reader.finish();
}

Result<LeaseIndex> read_index(int fd) {
  const std::string text = TRY(read_all(fd));
  return parse_index(text);
}

}  // namespace andiron::client
