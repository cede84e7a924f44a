// SPDX-License-Identifier: MIT
#include "tests/component/api/server_fixture.hpp"

#include <utility>  // first: Boost 1.74 needs it in C++20
// clang-format off
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
// clang-format on

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

namespace andiron::api {
namespace {

// Only a broken server waits this long.
constexpr std::chrono::seconds kPatience{20};

/// Values from the loop's thread to the test's.
template <class T>
class Handover {
 public:
  void put(T value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
    ++total_;
    changed_.notify_all();
  }
  std::optional<T> take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return !values_.empty(); })) return std::nullopt;
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }
  std::size_t total() {
    const std::lock_guard lock(mutex_);
    return total_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> values_;
  std::size_t total_ = 0;
};

}  // namespace

class ServerFixture::Loop {
 public:
  Loop() : work_(context_.get_executor()) {}

  void answer(Request request) {
    const ConnectionId id = request.connection;
    if (request.path == "/hold") {
      held_.put(std::move(request));
    } else if (request.path == "/big") {
      server_->respond(id,
                       {200, std::string(std::stoul(request.query["n"]), 'b'), "text/plain", ""});
    } else {
      server_->respond(id, {200, std::move(request.body), "text/plain", ""});
    }
  }

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::optional<Server> server_;
  Handover<Request> held_;
  Handover<ConnectionId> gone_;
  std::atomic<std::size_t> turns_{0};
  std::thread thread_;
};

ServerFixture::ServerFixture() = default;

ServerFixture::~ServerFixture() {
  if (!loop_) return;
  stop();
  loop_->work_.reset();
  loop_->thread_.join();
}

std::string ServerFixture::path() const { return (dir_ / "s").string(); }

void ServerFixture::start(Server::Limits limits) {
  loop_ = std::make_unique<Loop>();
  Loop& loop = *loop_;
  loop.server_.emplace(
      loop.context_, limits,
      Server::Callbacks{[&loop](Request request) { loop.answer(std::move(request)); },
                        [&loop](ConnectionId id) { loop.gone_.put(id); }});
  const auto listening = loop.server_->listen(path(), "andiron-test-no-such-group");
  ASSERT_TRUE(listening) << listening.error().message();
  group_missing_ = loop.server_->group_missing();
  loop.thread_ = std::thread([&loop] {
    while (loop.context_.run_one() != 0)
      ++loop.turns_;
  });
}

void ServerFixture::start_tcp(std::optional<BearerToken> token, Endpoint at) {
  on_loop([&](Server& server) {
    const auto port = server.listen_tcp(at, std::move(token));
    ASSERT_TRUE(port) << port.error().message();
    tcp_ = {at.address, *port};
  });
}

void ServerFixture::stop() {
  std::promise<void> done;
  boost::asio::post(loop_->context_, [&] {
    loop_->server_.reset();
    done.set_value();
  });
  done.get_future().wait();
}

void ServerFixture::on_loop(const std::function<void(Server&)>& task) {
  std::promise<void> done;
  boost::asio::post(loop_->context_, [&] {
    task(*loop_->server_);
    done.set_value();
  });
  done.get_future().wait();
}

std::size_t ServerFixture::turns() const { return loop_->turns_; }

Request ServerFixture::next_held() {
  auto request = loop_->held_.take();
  EXPECT_TRUE(request) << "no request was handed over";
  return request.value_or(Request{});
}

ConnectionId ServerFixture::next_gone() {
  const auto id = loop_->gone_.take();
  EXPECT_TRUE(id) << "nobody went away";
  return id.value_or(0);
}

std::size_t ServerFixture::gone_count() { return loop_->gone_.total(); }

void ServerFixture::wait_for_connections(std::size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::size_t now = count + 1;
  while (now != count && std::chrono::steady_clock::now() < deadline) {
    on_loop([&](Server& server) { now = server.connections(); });
    std::this_thread::yield();
  }
  EXPECT_EQ(now, count);
}

Answer ServerFixture::ask(RawClient& client, const std::string& request) {
  EXPECT_TRUE(client.send(request));
  return client.read_answer();
}

std::string get(const std::string& target) { return "GET " + target + " HTTP/1.1\r\n\r\n"; }

std::string post(const std::string& target, const std::string& body) {
  return "POST " + target + " HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

}  // namespace andiron::api
