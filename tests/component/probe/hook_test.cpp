// SPDX-License-Identifier: MIT
// The hook program as a runtime calls it, the socket that it writes to, and the files beside a
// container from which its name is known.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "agent/base/json_walk.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/probe/hook_report.hpp"
#include "agent/probe/hook_socket.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::probe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kId(64, 'a');

/// The hook with `input` on its stdin; gives its wait status. `hang`: stdin stays open.
int run_hook(const std::string& socket, const std::string& input, bool hang = false) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(reader.get(), STDIN_FILENO);
    ::execl(ANDIRON_OCI_HOOK, "andiron-oci-hook", "--socket", socket.c_str(), nullptr);
    ::_exit(99);
  }
  reader.reset();
  ::signal(SIGPIPE, SIG_IGN);
  for (std::size_t at = 0; at < input.size();) {
    const ssize_t sent = ::write(writer.get(), input.data() + at, input.size() - at);
    if (sent <= 0) break;  // it does not read more than it takes
    at += static_cast<std::size_t>(sent);
  }
  if (!hang) writer.reset();
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

/// Sends one datagram as this process.
void send_datagram(const std::string& path, const std::string& text) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::sendto(fd.get(), text.data(), text.size(), 0,
                     reinterpret_cast<const sockaddr*>(&address), sizeof address),
            static_cast<ssize_t>(text.size()));
}

class HookTest : public ::testing::Test {
 protected:
  HookTest() : path_((folder_ / "hook.sock").string()) {}
  testing::TempDir folder_;
  std::string path_;
};

TEST_F(HookTest, WhatTheRuntimeSaysArrives) {
  auto socket = HookSocket::create(path_);
  ASSERT_TRUE(socket) << socket.error().message();
  const std::string state = R"({"id":"a","status":"running","pid":1})";
  EXPECT_EQ(run_hook(path_, state), 0);
  EXPECT_THAT(socket->drain(), ElementsAre(state));
  EXPECT_THAT(socket->drain(), IsEmpty());
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(HookTest, AStateOf64KiBArrivesAndALongerOneIsLeftOut) {
  auto socket = HookSocket::create(path_);
  const std::string most(kMaxHookReport, 'x');
  EXPECT_EQ(run_hook(path_, most), 0);
  EXPECT_THAT(socket->drain(), ElementsAre(most));
  EXPECT_EQ(run_hook(path_, most + "x"), 0);
  EXPECT_EQ(run_hook(path_, std::string(1 << 20, 'x')), 0);
  EXPECT_THAT(socket->drain(), IsEmpty());
}

TEST_F(HookTest, NoContainerFailsBecauseOfIt) {
  EXPECT_EQ(run_hook(path_, "{}"), 0);                  // no agent
  EXPECT_EQ(run_hook(std::string(300, 'p'), "{}"), 0);  // no socket can be called that
  EXPECT_EQ(run_hook(folder_.write("file", "x").string(), "{}"), 0);
  EXPECT_EQ(run_hook(path_, ""), 0);
  EXPECT_EQ(run_hook(path_, "half", true), 0);  // a runtime that does not end it
}

TEST_F(HookTest, NoContainerWaitsForAnAgentThatDoesNotRead) {
  auto socket = HookSocket::create(path_);
  int sent = 0;
  for (; sent < 1024; ++sent) {  // until its queue is full, which is 10 on many systems
    EXPECT_EQ(run_hook(path_, "{}"), 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    const UniqueFd probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    pollfd room{probe.get(), POLLOUT, 0};
    if (::poll(&room, 1, 0) == 0) break;
  }
  ASSERT_LT(sent, 1024);
  EXPECT_EQ(run_hook(path_, "{\"late\":1}"), 0);  // comes back all the same
  std::size_t taken = 0;
  for (auto reports = socket->drain(); !reports.empty(); reports = socket->drain()) {
    taken += reports.size();
    EXPECT_THAT(reports, ::testing::Not(::testing::Contains("{\"late\":1}")));
  }
  EXPECT_EQ(taken, static_cast<std::size_t>(sent) + 1);
}

TEST_F(HookTest, DatagramsThatAreTooLongAndThoseOfOthersAreDroppedAndCounted) {
  auto socket = HookSocket::create(path_);
  send_datagram(path_, std::string(kMaxHookReport + 1, 'x'));
  EXPECT_THAT(socket->drain(), IsEmpty());
  EXPECT_EQ(socket->dropped(), 1U);
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  // As if somebody had loosened its mode, and the folder's above.
  std::filesystem::permissions(path_, std::filesystem::perms::all);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  const UniqueFd folder(::open(folder_.path().c_str(), O_PATH | O_CLOEXEC));
  const pid_t child = ::fork();
  if (child == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, "hook.sock", 9);
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM, 0);
    const bool sent =
        ::fchdir(folder.get()) == 0 && ::setuid(65534) == 0 &&
        ::sendto(fd, "{}", 2, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 2;
    ::_exit(sent ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_THAT(socket->drain(), IsEmpty());
  EXPECT_EQ(socket->dropped(), 2U);
}

TEST_F(HookTest, TheSocketOfAKilledAgentIsReplacedAndNothingElseIs) {
  {
    auto socket = HookSocket::create(path_);
    HookSocket moved(std::move(*socket));
    EXPECT_TRUE(std::filesystem::exists(path_));
    EXPECT_TRUE(HookSocket::create(path_));  // and removes it as it goes
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  folder_.write("hook.sock", "mine");
  EXPECT_FALSE(HookSocket::create(path_));
  EXPECT_TRUE(std::filesystem::is_regular_file(path_));
}

TEST_F(HookTest, KnowsWhenItsNameLeadsElsewhere) {
  auto first = HookSocket::create(path_);
  ASSERT_TRUE(first);
  HookSocket moved(std::move(*first));
  EXPECT_TRUE(moved.in_place());
  std::filesystem::remove(path_);
  EXPECT_FALSE(moved.in_place());
  auto second = HookSocket::create(path_);
  EXPECT_TRUE(second->in_place());
  EXPECT_FALSE(moved.in_place());
  { const HookSocket gone(std::move(moved)); }
  EXPECT_TRUE(std::filesystem::exists(path_));  // it was another's by then
}

TEST_F(HookTest, PodmanWritesNamesBesideItsContainers) {
  const std::string bundle = (folder_ / "overlay-containers" / kId / "userdata").string();
  folder_.write("overlay-containers/containers.json",
                R"([{"id":"other","names":["jellyfin"]},{"id":")" + kId +
                    R"(","names":["ollama","alias"],"metadata":"{\"id\":\"x\"}"}])");
  folder_.write("overlay-containers/" + kId + "/userdata/config.json", R"({"hostname":"host"})");
  EXPECT_EQ(name_from_bundle(bundle, kId), "ollama");
  EXPECT_EQ(name_from_bundle(bundle, "other"), "jellyfin");
  EXPECT_EQ(name_from_bundle(bundle, "unknown"), "host");
}

TEST_F(HookTest, OthersHaveAnnotationsOrAHostName) {
  const std::string bundle = (folder_ / "bundle").string();
  folder_.write("bundle/config.json",
                R"({"hostname":"host","annotations":{"nerdctl/name":"ollama"}})");
  EXPECT_EQ(name_from_bundle(bundle, kId), "ollama");
  folder_.write("bundle/config.json", R"({"hostname":")" + kId.substr(0, 12) + "\"}");
  EXPECT_EQ(name_from_bundle(bundle, kId), "");  // nobody chose that
  folder_.write("bundle/config.json", "not json");
  EXPECT_EQ(name_from_bundle(bundle, kId), "");
}

TEST_F(HookTest, ABundleOfAStrangerHurtsNobody) {
  const std::string bundle = (folder_ / "bundle").string();
  std::filesystem::create_directories(bundle);
  EXPECT_EQ(name_from_bundle(bundle, kId), "");
  EXPECT_EQ(name_from_bundle("relative", kId), "");
  EXPECT_EQ(name_from_bundle("/", kId), "");
  ASSERT_EQ(::mkfifo((bundle + "/config.json").c_str(), 0600), 0);
  EXPECT_EQ(name_from_bundle(bundle, kId), "");
  std::filesystem::remove(bundle + "/config.json");
  std::ofstream(bundle + "/config.json") << R"({"hostname":"host"})";
  std::filesystem::resize_file(bundle + "/config.json", std::uintmax_t{1} << 40);
  EXPECT_EQ(name_from_bundle(bundle, kId), "");
}

TEST(HooksD, TheFileForPodmanAndCriOIsValid) {
  std::ifstream file(ANDIRON_HOOKS_D);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> stages;
  std::string version;
  std::string path;
  std::uint64_t timeout = 0;
  ASSERT_TRUE(walk_json(text, 8, [&](const JsonEvent& json) -> Result<void> {
    if (json.kind == JsonEvent::Kind::string && json.path[0] == "stages") {
      stages.emplace_back(json.text);
    } else if (json.kind == JsonEvent::Kind::string && json.path[0] == "version") {
      version = json.text;
    } else if (json.kind == JsonEvent::Kind::string && json.path.back() == "path") {
      path = json.text;
    } else if (json.kind == JsonEvent::Kind::natural && json.path.back() == "timeout") {
      timeout = json.number;
    }
    return {};
  }));
  EXPECT_EQ(version, "1.0.0");
  EXPECT_THAT(path, ::testing::EndsWith("/andiron-oci-hook"));
  EXPECT_EQ(timeout, 1U);
  EXPECT_THAT(stages, ElementsAre("poststart", "poststop"));
}

}  // namespace
}  // namespace andiron::probe
