// SPDX-License-Identifier: MIT
#include "agent/api/lease_packet.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/api/json_body.hpp"
#include "agent/base/vocabulary.hpp"

namespace andiron::api {
namespace {

using nlohmann::json;

constexpr int kProtocol = 1;
constexpr std::size_t kMaxName = 4096;
/// One descriptor is what a request may bring, and this is what a packet can (SCM_MAX_FD): for
/// those that find no room the kernel closes here and now, which may block.
constexpr std::size_t kRoomForFds = 253;

/// Whatever happened, the descriptors that came are somebody's to close.
bool take_fds(msghdr& message, std::vector<UniqueFd>& fds) {
  bool only_fds = true;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      only_fds = false;
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return only_fds;
}

LeasePacket packet_of(const json& object) { return {dump(object), {}}; }

}  // namespace

Received receive_packet(int socket, std::vector<char>& buffer) {
  buffer.resize(kMaxLeasePacket);
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kRoomForFds * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return {errno == EAGAIN ? Received::Kind::nothing : Received::Kind::end, {}};
  Received received;
  const bool only_fds = take_fds(message, received.packet.fds);
  const bool whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (!whole || !only_fds) {
    received.kind = Received::Kind::violation;
  } else if (got == 0) {
    received.kind = Received::Kind::end;
  } else {
    received.kind = Received::Kind::packet;
    received.packet.text.assign(buffer.data(), static_cast<std::size_t>(got));
  }
  return received;
}

Sent send_packet(int socket, const LeasePacket& packet) {
  iovec part{const_cast<char*>(packet.text.data()), packet.text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxPacketFds * sizeof(int))] = {};
  if (!packet.fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(packet.fds.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(packet.fds.size() * sizeof(int));
    for (std::size_t i = 0; i < packet.fds.size(); ++i) {
      const int fd = packet.fds[i].get();
      std::memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof fd);
    }
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return Sent::whole;
  // ETOOMANYREFS: so many descriptors are on their way to clients that do not take them.
  const bool later = errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
  return later ? Sent::full : Sent::gone;
}

Result<LeaseRequest> parse_lease_request(std::string_view text, std::size_t fds,
                                         std::chrono::milliseconds longest_wait) {
  const JsonBody body = TRY(JsonBody::parse(text));
  TRY(body.only({"op", "model", "source_fd", "tier", "gpu", "transports", "wait_ms"}));
  const std::string op = TRY(body.required_string("op"));
  if (op != "lease") return make_error(Errc::bad_request, "the 'op' of a request is \"lease\"");
  LeaseRequest request;
  const auto model = TRY(body.string("model"));
  const auto source = TRY(body.unsigned_integer("source_fd", 0));
  if (model.has_value() == source.has_value())
    return make_error(Errc::bad_request, "one of 'model' and 'source_fd' names what is wanted");
  if (fds != (source ? 1U : 0U)) {
    return make_error(Errc::bad_request, std::to_string(fds) + " descriptors came, " +
                                             (source ? "1" : "none") + " was to");
  }
  request.model = model.value_or("");
  if (request.model.size() > kMaxName || (model && request.model.empty()))
    return make_error(Errc::bad_request, "'model' is empty, or longer than 4096 bytes");
  if (const auto name = TRY(body.string("tier"))) {
    const auto tier = parse_tier(*name);
    if (!tier) return make_error(Errc::bad_request, "'tier' is \"pinned-ram\" or \"vram\"");
    request.tier = *tier;
  }
  const auto most = static_cast<std::uint64_t>(longest_wait.count());
  const std::uint64_t wait = TRY(body.unsigned_integer("wait_ms")).value_or(0);
  request.wait = std::chrono::milliseconds(std::min(wait, most));
  return request;
}

LeasePacket hello_packet(const std::string& nonce) {
  return packet_of(
      {{"op", "hello"}, {"protocol", kProtocol}, {"nonce", nonce}, {"gpus", json::array()}});
}

LeasePacket refused_packet(const Error& error) {
  return packet_of(
      {{"op", "refused"}, {"code", error_name(error.errc())}, {"message", error.message()}});
}

LeasePacket revoke_packet(const std::string& reason, std::chrono::milliseconds deadline) {
  return packet_of({{"op", "revoke"}, {"reason", reason}, {"deadline_ms", deadline.count()}});
}

std::vector<LeasePacket> granted_packets(LeaseGrant grant) {
  std::vector<LeasePacket> packets;
  json object{
      {"op", "granted"},      {"lease", grant.lease},          {"generation", grant.generation},
      {"model", grant.model}, {"tier", to_string(grant.tier)}, {"bytes", grant.bytes}};
  std::size_t next = 0;
  do {
    const std::size_t count = std::min(kMaxPacketFds, grant.fds.size() - next);
    object["fds"] = count;
    object["more"] = next + count < grant.fds.size();
    LeasePacket packet = packet_of(object);
    for (std::size_t i = 0; i < count; ++i)
      packet.fds.push_back(std::move(grant.fds[next + i]));
    packets.push_back(std::move(packet));
    next += count;
    object = {{"op", "fds"}};
  } while (next < grant.fds.size());
  return packets;
}

}  // namespace andiron::api
