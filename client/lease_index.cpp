// SPDX-License-Identifier: MIT
#include "client/lease_index.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
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
// As the agent writes it, and most who write JSON.
constexpr std::string_view kTensorsKey = "\"tensors\":";
// What comes before the tensors, for a hundred files; doubled where that is not enough.
constexpr std::uint64_t kFirstRead = 32 << 10;
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
  /// Which part of an index the text is.
  enum class Part { whole, head, rest };
  explicit Reader(Part part) : part_(part) {}

  Result<void> walk(std::string_view text);
  LeaseIndex& index() { return index_; }
  IndexTensors& tensors() { return tensors_; }
  /// Whether it has said all but the tensors.
  bool is_head() const { return seen_ == kAllSeen && ends_; }
  Result<void> check_segments() const;
  Result<void> check_tensors(const LeaseIndex& index) const;

 private:
  using Kind = JsonEvent::Kind;
  static constexpr std::array<std::string_view, 6> kHeadKeys = {"model", "tier",  "generation",
                                                                "bytes", "files", "segments"};
  static constexpr unsigned kAllSeen = (1U << kHeadKeys.size()) - 1;
  Result<void> visit(const JsonEvent& event);
  Result<void> see(const JsonEvent& event, const std::string& key);
  template <class T>
  Result<void> begin_entry(std::vector<T>& list, std::size_t limit);
  Result<void> set(std::string& field, const JsonEvent& event);
  Result<void> set(std::uint64_t& field, const JsonEvent& event);
  Result<void> head(const JsonEvent& event, const std::string& key);
  Result<void> file(const JsonEvent& event, const std::string& key);
  Result<void> segment(const JsonEvent& event, const std::string& key);
  Result<void> tensor(const JsonEvent& event, const std::string& key);

  Part part_;
  LeaseIndex index_;
  IndexTensors tensors_;
  unsigned seen_ = 0;  // a bit for each of kHeadKeys
  bool ends_ = false;  // with the tensors' key
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
  if (path.size() == 1) {
    TRY(see(event, list));
    return head(event, list);
  }
  if (list != "files" && list != "segments" && list != "tensors") return {};
  if (path.size() == 2) {
    if (event.kind == Kind::end_object) return {};
    if (event.kind != Kind::begin_object || !path[1].empty())
      return bad("'" + list + "' is no list of objects");
    if (list == "files") return begin_entry(index_.files, kMaxFiles);
    if (list == "segments") return begin_entry(index_.segments, kMaxFiles);
    return begin_entry(tensors_, kMaxTensors);
  }
  if (list == "files") return file(event, path[2]);
  if (list == "segments") return segment(event, path[2]);
  return tensor(event, path[2]);
}

/// What an index is made of: the head has it before its end, and the rest may not say it again.
Result<void> Reader::see(const JsonEvent& event, const std::string& key) {
  if (key == "tensors") {
    // In the head, the null that parse_head() puts there, and nothing else.
    const bool fits = part_ == Part::head
                          ? event.kind == Kind::other && !std::exchange(ends_, true)
                          : event.kind == Kind::begin_array || event.kind == Kind::end_array;
    return fits ? Result<void>() : bad("'tensors' is no list of objects");
  }
  const auto* const known = std::find(kHeadKeys.begin(), kHeadKeys.end(), key);
  if (known == kHeadKeys.end()) return {};
  if (part_ == Part::rest) return bad("'" + key + "' again");
  const bool is_list = key == "files" || key == "segments";
  if (!is_list || event.kind == Kind::begin_array)
    seen_ |= 1U << static_cast<unsigned>(known - kHeadKeys.begin());
  return {};
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
  LeaseIndex::Tensor& tensor = tensors_.back();
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

Result<void> Reader::check_tensors(const LeaseIndex& index) const {
  for (const LeaseIndex::Tensor& tensor : tensors_) {
    if (tensor.segment >= index.segments.size()) return bad("a tensor in no segment");
    if (!fits(tensor.offset, tensor.bytes, index.segments[tensor.segment].bytes))
      return bad("a tensor past its segment's end");
  }
  return {};
}

Result<void> Reader::walk(std::string_view text) {
  return walk_json(text, kDepth, [this](const JsonEvent& event) { return visit(event); })
      .wrap("the lease's index");
}

}  // namespace

Result<WholeIndex> parse_index(std::string_view text) {
  Reader reader(Reader::Part::whole);
  TRY(reader.walk(text));
  TRY(reader.check_segments());
  TRY(reader.check_tensors(reader.index()));
  return WholeIndex{std::move(reader.index()), std::move(reader.tensors())};
}

std::size_t find_tensors(std::string_view text, std::size_t from) {
  from = std::min(from, text.size());
  const void* found =
      ::memmem(text.data() + from, text.size() - from, kTensorsKey.data(), kTensorsKey.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::optional<LeaseIndex> parse_head(std::string_view text) {
  // Whatever was found there, a key or the end of some string: this is a good index whose last key
  // is "tensors", or it is not the place.
  const std::string whole = std::string(text) + std::string(kTensorsKey) + "null}";
  Reader reader(Reader::Part::head);
  if (!reader.walk(whole) || !reader.is_head() || !reader.check_segments()) return std::nullopt;
  return std::move(reader.index());
}

Result<IndexTensors> parse_rest(std::string_view text, const LeaseIndex& head) {
  Reader reader(Reader::Part::rest);
  TRY(reader.walk(text));
  TRY(reader.check_tensors(head));
  return std::move(reader.tensors());
}

Result<IndexFile> IndexFile::open(UniqueFd fd) {
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return make_system_error(errno, "the lease's index");
  if (!S_ISREG(found.st_mode)) return bad("no file");
  IndexFile file(std::move(fd));
  file.size_ = static_cast<std::uint64_t>(found.st_size);
  if (file.size_ > kMaxIndexBytes) return make_error(Errc::too_large, "the lease's index");
  std::size_t place = std::string_view::npos;
  for (std::uint64_t step = kFirstRead; place == std::string_view::npos && file.read_ < file.size_;
       step *= 2) {
    const std::size_t before = file.text_.size();
    TRY(file.read_to(std::min(file.size_, file.read_ + step)));
    place = find_tensors(file.text_, before - std::min(before, kTensorsKey.size() - 1));
  }
  if (place != std::string_view::npos) {
    std::optional<LeaseIndex> head = parse_head(std::string_view(file.text_).substr(0, place));
    if (head) {
      file.index_ = std::move(*head);
      file.text_.replace(0, place, "{");
      if (file.read_ == file.size_) file.fd_.reset();
      return file;
    }
  }
  // The keys are in another order: all of it, now.
  TRY(file.read_to(file.size_));
  WholeIndex whole = TRY(parse_index(file.text_));
  file.index_ = std::move(whole.index);
  file.tensors_ = std::move(whole.tensors);
  file.read_no_more();
  return file;
}

Result<IndexTensors> IndexFile::take_tensors() {
  if (tensors_) return std::move(*tensors_);
  Result<IndexTensors> tensors = read_rest();
  // Either way, it was what there is.
  read_no_more();
  return tensors;
}

Result<IndexTensors> IndexFile::read_rest() {
  TRY(read_to(size_));
  return parse_rest(text_, index_);
}

/// Read and not mapped: what is checked stays what is used, whoever may write to it.
Result<void> IndexFile::read_to(std::uint64_t end) {
  while (read_ < end) {
    const std::size_t have = text_.size();
    const auto wanted = static_cast<std::size_t>(end - read_);
    text_.resize(have + wanted);
    const ssize_t got = ::pread(fd_.get(), text_.data() + have, wanted, static_cast<off_t>(read_));
    const int errno_value = errno;
    text_.resize(have + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got < 0 && errno_value == EINTR) continue;
    if (got < 0) return make_system_error(errno_value, "read the lease's index");
    if (got == 0) return bad("shorter than it was");
    read_ += static_cast<std::uint64_t>(got);
  }
  return {};
}

void IndexFile::read_no_more() {
  fd_.reset();
  text_ = std::string();
}

}  // namespace andiron::client
