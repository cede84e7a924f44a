// SPDX-License-Identifier: MIT
// The journal is played with what it has: a datagram socket, and a stream in the place of stderr.
#include "agent/base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/journal_reader.hpp"

namespace andiron::log {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using Record = std::map<std::string, std::string>;

class LogToJournal : public ::testing::Test {
 protected:
  void SetUp() override {
    // A socket's path has 107 bytes at most: not in the test's own folder.
    std::string folder = "/tmp/andiron-log-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = folder_ + "/socket";
    listen();
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    stream_ = UniqueFd(ends[0]);
    const UniqueFd end(ends[1]);
    stderr_ = UniqueFd(::dup(STDERR_FILENO));
    ASSERT_EQ(::dup2(end.get(), STDERR_FILENO), STDERR_FILENO);
    start(Level::info, stderr_name(), path_);
  }
  void TearDown() override {
    if (stderr_) ::dup2(stderr_.get(), STDERR_FILENO);
    start(Level::warning, "");
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }

  void listen() {
    journal_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(journal_);
    ASSERT_EQ(::bind(journal_.get(), any(), sizeof address_), 0);
  }
  void go_away() {
    journal_.reset();
    ::unlink(path_.c_str());
  }
  const sockaddr* any() {
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path, path_.c_str(), path_.size() + 1);
    return reinterpret_cast<const sockaddr*>(&address_);
  }

  static std::string stderr_name() {
    struct stat status {};
    EXPECT_EQ(::fstat(STDERR_FILENO, &status), 0);
    return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  }
  static std::string receive(const UniqueFd& from) {
    std::vector<char> buffer(1 << 18);
    const ssize_t count = ::recv(from.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    return count < 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(count));
  }
  /// The next record that the journal has; none is empty.
  Record next() {
    const std::string datagram = receive(journal_);
    if (datagram.empty()) return {};
    const auto record = testing::read_journal_record(datagram);
    EXPECT_TRUE(record.has_value()) << datagram;
    return record.value_or(Record{});
  }
  std::string on_stderr() { return receive(stream_); }
  /// How much went in before there was no room.
  int fill(int to, const sockaddr* where, socklen_t size) {
    const std::string filler(1024, '.');
    int count = 0;
    while (::sendto(to, filler.data(), filler.size(), MSG_DONTWAIT, where, size) > 0)
      ++count;
    EXPECT_EQ(errno, EAGAIN);
    return count;
  }
  /// A sender has a limit of its own, so it takes several to fill the receiver's queue.
  void fill_journal() {
    do {
      senders_.emplace_back(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    } while (fill(senders_.back().get(), any(), sizeof address_) > 0);
  }

  std::string folder_;
  std::string path_;
  sockaddr_un address_{};
  UniqueFd journal_;
  UniqueFd stream_;  // what is written to stderr comes out here
  UniqueFd stderr_;  // the test's own
  std::vector<UniqueFd> senders_;
};

TEST_F(LogToJournal, ARecordHasItsFields) {
  const std::string name = "assistant";
  const int line = __LINE__ + 1;
  info({.model = name, .event = "model.warmed", .job = 7}, "{}: warm, {} read", name, "1 GiB");
  const Record record = next();
  EXPECT_THAT(record, ::testing::UnorderedElementsAre(
                          Pair("MESSAGE", "assistant: warm, 1 GiB read"), Pair("PRIORITY", "6"),
                          Pair("SYSLOG_IDENTIFIER", "andirond"), Pair("ANDIRON_MODEL", name),
                          Pair("ANDIRON_EVENT", "model.warmed"), Pair("ANDIRON_JOB", "7"),
                          Pair("CODE_FILE", HasSubstr("log_test.cpp")),
                          Pair("CODE_LINE", std::to_string(line))));
  EXPECT_EQ(on_stderr(), "");
}

TEST_F(LogToJournal, PrioritiesAreThoseOfSyslog) {
  debug("not at this level");
  warning("a");
  error({.error = "io_error"}, "b");
  EXPECT_THAT(next(), Contains(Pair("PRIORITY", "4")));
  const Record last = next();
  EXPECT_THAT(last, Contains(Pair("PRIORITY", "3")));
  EXPECT_THAT(last, Contains(Pair("ANDIRON_ERROR", "io_error")));
  EXPECT_THAT(last, Not(Contains(Key("ANDIRON_MODEL"))));
  EXPECT_THAT(next(), IsEmpty());
}

TEST_F(LogToJournal, AHostileNameIsAValueAndNoMore) {
  const std::string name = "a\nPRIORITY=0\nANDIRON_EVENT=model.evicted\n";
  info({.model = name}, "{}: let go", name);
  const Record record = next();
  EXPECT_THAT(record, Contains(Pair("ANDIRON_MODEL", name)));
  EXPECT_THAT(record, Contains(Pair("PRIORITY", "6")));
  EXPECT_THAT(record, Not(Contains(Key("ANDIRON_EVENT"))));
  EXPECT_THAT(record, Contains(Pair("MESSAGE",
                                    "a\\x0aPRIORITY=0\\x0aANDIRON_EVENT=model.evicted"
                                    "\\x0a: let go")));
}

TEST_F(LogToJournal, TheLongestRecordGoesWhole) {
  const std::string endless(1 << 20, '\n');
  info({.model = endless, .event = endless, .error = endless}, "{}", endless);
  const Record record = next();
  EXPECT_THAT(record, Contains(Key("MESSAGE")));
  EXPECT_THAT(record, Contains(Pair("ANDIRON_MODEL", endless.substr(0, journal::kMaxValue))));
}

TEST_F(LogToJournal, WithoutTheSocketItIsALineOnStderr) {
  go_away();
  warning({.model = "a"}, "one\ntwo");
  EXPECT_EQ(on_stderr(), "<4>one\\x0atwo\n");
  listen();  // a journal that was started anew
  warning({.model = "a"}, "three");
  EXPECT_THAT(next(), Contains(Pair("MESSAGE", "three")));
}

TEST_F(LogToJournal, NeverWaitsAndTellsWhatWasLost) {
  fill_journal();
  info("to stderr");
  EXPECT_EQ(on_stderr(), "<6>to stderr\n");
  fill(STDERR_FILENO, nullptr, 0);
  info("lost");
  info("lost");
  while (!receive(journal_).empty()) {
  }
  info("after it");
  EXPECT_THAT(next(), Contains(Pair("MESSAGE", "after it")));
  const Record told = next();
  EXPECT_THAT(told, Contains(Pair("MESSAGE", HasSubstr("before this one: 2"))));
  EXPECT_THAT(told, Contains(Pair("PRIORITY", "4")));
  EXPECT_THAT(next(), IsEmpty());
}

TEST_F(LogToJournal, RecordsOfManyThreadsStayWhole) {
  constexpr int kThreads = 4;
  constexpr int kEach = 25;  // as many as the stream alone has room for
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([i] {
      const std::string name(static_cast<std::size_t>(100 + i), static_cast<char>('a' + i));
      for (int k = 0; k < kEach; ++k)
        info({.model = name}, "{}", name);
    });
  }
  // What does not fit into the one queue goes into the other; both are emptied meanwhile.
  int seen = 0;
  std::string lines;
  while (seen < kThreads * kEach) {
    std::array<pollfd, 2> fds{{{journal_.get(), POLLIN, 0}, {stream_.get(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), 60'000) <= 0) break;
    for (Record record = next(); !record.empty(); record = next()) {
      EXPECT_EQ(record["MESSAGE"], record["ANDIRON_MODEL"]);
      EXPECT_EQ(record["MESSAGE"].find_first_not_of(record["MESSAGE"][0]), std::string::npos);
      ++seen;
    }
    lines += on_stderr();
    for (std::size_t end = lines.find('\n'); end != std::string::npos; end = lines.find('\n')) {
      EXPECT_EQ(lines.substr(0, 3), "<6>");
      EXPECT_EQ(lines.substr(3, end - 3).find_first_not_of(lines[3]), std::string::npos);
      lines.erase(0, end + 1);
      ++seen;
    }
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(seen, kThreads * kEach);
}

TEST_F(LogToJournal, AnotherStderrIsNoJournal) {
  start(Level::info, "1:1", path_);
  info({.model = "a"}, "hello");
  EXPECT_THAT(next(), IsEmpty());
  EXPECT_THAT(on_stderr(), ::testing::EndsWith(" info: hello\n"));
}

}  // namespace
}  // namespace andiron::log
