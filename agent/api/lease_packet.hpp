// SPDX-License-Identifier: MIT
// Of the lease server's own, and of its fuzzer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "agent/api/lease_server.hpp"
#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron::api {

inline constexpr std::size_t kMaxLeasePacket = 64 * 1024;
/// As the protocol says; the kernel lets 253 (SCM_MAX_FD) through.
inline constexpr std::size_t kMaxPacketFds = 64;

/// One packet, as it came or as it goes.
struct LeasePacket {
  std::string text;
  std::vector<UniqueFd> fds;
};

/// What was there to receive.
struct Received {
  enum class Kind {
    packet,
    nothing,    // for now
    end,        // the peer hung up, or sent an empty packet, which reads the same
    violation,  // too long, or something else beside the text
  };
  Kind kind = Kind::nothing;
  LeasePacket packet;  // with a violation, the descriptors that came all the same
};

/// Takes one packet. `buffer` has kMaxLeasePacket bytes. Never blocks.
Received receive_packet(int socket, std::vector<char>& buffer);

enum class Sent { whole, full, gone };
/// Hands one packet over, its descriptors too, which stay ours. Never blocks.
Sent send_packet(int socket, const LeasePacket& packet);

/// A client's packet, which came with so many descriptors. `source` is not set: the caller moves
/// the one that came. Errors: bad_request.
Result<LeaseRequest> parse_lease_request(std::string_view text, std::size_t fds,
                                         std::chrono::milliseconds longest_wait);

LeasePacket hello_packet(const std::string& nonce);
LeasePacket refused_packet(const Error& error);
LeasePacket revoke_packet(const std::string& reason, std::chrono::milliseconds deadline);
/// The grant and its descriptors, so many a packet as may be.
std::vector<LeasePacket> granted_packets(LeaseGrant grant);

}  // namespace andiron::api
