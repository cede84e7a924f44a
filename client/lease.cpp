// SPDX-License-Identifier: MIT
#include "client/lease.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "client/messages.hpp"

namespace andiron::client {
namespace {

constexpr std::uint64_t kProtocol = 1;
// So that a peer that never stops sending does not keep dispatch() from returning.
constexpr int kPacketsAtOnce = 64;

Error broken(const char* what) {
  return make_error(Errc::bad_format, std::string("the agent broke the protocol: ") + what);
}

/// What a refusal says, where it says anything.
Result<Refusal> refusal_of(Message& message, const Packet& packet) {
  if (!packet.fds.empty() || message.code.empty()) return broken("an odd refusal");
  return Refusal{std::move(message.code), std::move(message.text)};
}

/// Takes the agent's hello, in place of which one that has too many clients refuses.
Result<std::optional<Refusal>> greet(LeaseSocket& socket, Deadline deadline) {
  const Packet packet = TRY(socket.receive(deadline));
  Message hello = TRY(parse_message(packet.text));
  if (hello.op == "refused") return std::optional<Refusal>(TRY(refusal_of(hello, packet)));
  if (hello.op != "hello" || !packet.fds.empty()) return broken("no hello");
  if (hello.protocol != kProtocol) {
    return make_error(
        Errc::unavailable,
        "the agent speaks protocol " + std::to_string(hello.protocol) + ", this library speaks 1");
  }
  return std::optional<Refusal>();
}

/// As much of its file as the segments of a descriptor need.
std::vector<std::uint64_t> bytes_by_fd(const LeaseIndex& index) {
  std::vector<std::uint64_t> bytes;
  for (const LeaseIndex::Segment& segment : index.segments) {
    if (bytes.size() <= segment.fd) bytes.resize(segment.fd + 1);
    if (segment.bytes == 0) continue;
    bytes[segment.fd] = std::max(bytes[segment.fd], segment.offset + segment.bytes);
  }
  return bytes;
}

}  // namespace

Result<Lease::Answer> Lease::open(const LeaseRequest& request) {
  const Deadline answers = std::chrono::steady_clock::now() + request.timeout;
  const Deadline grants = answers + request.wait;
  LeaseSocket socket = TRY(LeaseSocket::connect(request.socket, answers));
  std::optional<Refusal> refusal = TRY(greet(socket, answers));
  if (refusal) return Answer(std::move(*refusal));
  const auto wait_ms = static_cast<std::uint32_t>(request.wait.count());
  Result<void> sent =
      socket.send(lease_request(request.model, request.tier, wait_ms), request.source_fd, answers);
  TRY(std::move(sent));
  std::unique_ptr<Lease> lease(new Lease(std::move(socket)));
  refusal = TRY(lease->take_grant(grants));
  if (refusal) return Answer(std::move(*refusal));
  return Answer(std::move(lease));
}

Result<std::optional<Refusal>> Lease::take_grant(Deadline deadline) {
  Packet packet = TRY(socket_.receive(deadline));
  Message message = TRY(parse_message(packet.text));
  if (message.op == "refused") return std::optional<Refusal>(TRY(refusal_of(message, packet)));
  if (message.op != "granted") return broken("neither granted nor refused");
  if (packet.fds.empty() || packet.fds.size() != message.fds)
    return broken("not as many descriptors as it says");
  number_ = message.lease;
  generation_ = message.generation;
  file_ = TRY(IndexFile::open(std::move(packet.fds.front())));
  if (index().generation != generation_) return broken("the index of another generation");
  TRY(take_segments(std::move(packet), message.more, deadline));
  show();
  return std::optional<Refusal>();
}

/// Maps each packet's descriptors and closes them before the next one comes, so that a model of
/// many files does not meet the limit of open files.
Result<void> Lease::take_segments(Packet first, bool more, Deadline deadline) {
  // The index names places; it may not have us make room for more than its own size accounts for.
  for (const LeaseIndex::Segment& segment : index().segments) {
    if (segment.fd > index().segments.size())
      return broken("a descriptor's place past their number");
  }
  const std::vector<std::uint64_t> wanted = bytes_by_fd(index());
  regions_.resize(wanted.size());
  Packet packet = std::move(first);
  std::uint64_t place = 0;
  while (true) {
    for (const UniqueFd& fd : packet.fds) {
      if (place > 0 && place >= wanted.size()) return broken("more descriptors than segments");
      if (place > 0) TRY(map(place, fd, wanted[place]));
      ++place;
    }
    if (!more) break;
    packet = TRY(socket_.receive(deadline));
    const Message message = TRY(parse_message(packet.text));
    if (message.op != "fds" || packet.fds.empty() || packet.fds.size() != message.fds)
      return broken("descriptors were to follow");
    more = message.more;
  }
  if (place < wanted.size()) return broken("fewer descriptors than segments");
  return {};
}

Result<void> Lease::map(std::uint64_t place, const UniqueFd& fd, std::uint64_t bytes) {
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return make_system_error(errno, "a segment of the lease");
  if (!S_ISREG(found.st_mode)) return broken("a segment that is no file");
  if (bytes > static_cast<std::uint64_t>(found.st_size)) return broken("a segment past its end");
  // What is empty cannot be mapped, and need not be.
  if (bytes > 0) regions_[place] = TRY(MappedRegion::map_file(fd.get(), bytes));
  return {};
}

/// Fills in what is given out. Everything it points to was checked.
void Lease::show() {
  segments_.reserve(index().segments.size());
  for (const LeaseIndex::Segment& segment : index().segments) {
    const std::byte* data =
        segment.bytes == 0 ? nullptr : regions_[segment.fd].data() + segment.offset;
    segments_.push_back(
        {index().files[segment.file].name.c_str(), segment.file_offset, segment.bytes, data});
  }
}

Result<const TensorTable*> Lease::tensors() const {
  if (const TensorTable* table = table_.load(std::memory_order_acquire)) return table;
  const std::lock_guard lock(reading_);
  if (!tensors_) {
    // What stays where the rest of this throws.
    tensors_ = make_error(Errc::io_error, "no memory for the lease's tensors");
    Result<IndexTensors> entries = file_.take_tensors();
    if (entries)
      tensors_ = std::make_unique<const TensorTable>(std::move(*entries), segments_);
    else
      tensors_ = std::move(entries).error();
  }
  if (!*tensors_) return tensors_->error();
  table_.store((*tensors_)->get(), std::memory_order_release);
  return (*tensors_)->get();
}

Result<std::optional<Revocation>> Lease::dispatch() {
  std::optional<Revocation> revocation;
  for (int i = 0; i < kPacketsAtOnce; ++i) {
    Result<std::optional<Packet>> packet = socket_.receive_now();
    // A revoke is told of first; the hang-up that came after it is found again by the next call.
    if (!packet && revocation) break;
    if (!packet) return std::move(packet).error();
    if (!*packet) break;
    const Message message = TRY(parse_message((*packet)->text));
    if (!(*packet)->fds.empty()) return broken("descriptors that nobody asked for");
    // Others are of later versions.
    if (message.op != "revoke") continue;
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
    revocation = {message.reason, static_cast<std::uint32_t>(std::min(message.deadline_ms, kMost))};
    revoked_.store(true, std::memory_order_relaxed);
  }
  return revocation;
}

}  // namespace andiron::client
