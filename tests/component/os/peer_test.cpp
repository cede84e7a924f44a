// SPDX-License-Identifier: MIT
#include "agent/os/peer.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/unique_fd.hpp"

namespace andiron::os {
namespace {

TEST(Peer, IsWhoMadeTheSocketPair) {
  int fds[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd one(fds[0]);
  const UniqueFd two(fds[1]);
  const Result<Peer> peer = peer_of(one.get());
  ASSERT_TRUE(peer) << peer.error().message();
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::geteuid());
  EXPECT_EQ(peer->gid, ::getegid());
}

TEST(Peer, IsAnErrorOfWhatIsNoSocket) {
  EXPECT_FALSE(peer_of(STDIN_FILENO));
  EXPECT_FALSE(peer_of(-1));
}

}  // namespace
}  // namespace andiron::os
