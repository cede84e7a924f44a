// SPDX-License-Identifier: MIT
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/base/unique_fd.hpp"

namespace andiron {

/// Values from any thread to one reader, which sleeps on fd() becoming readable.
/// Thread: push from any; drain from the reader alone. Blocks: only for the mutex, held for a
/// move. A closed mailbox drops what is pushed.
template <class T>
class Mailbox {
 public:
  static Result<Mailbox> create() {
    UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd) return make_system_error(errno, "eventfd");
    return Mailbox(std::move(fd));
  }
  /// Moved only before it is shared.
  Mailbox(Mailbox&& other) noexcept
      : wake_(std::move(other.wake_)), values_(std::move(other.values_)) {}
  Mailbox& operator=(Mailbox&&) = delete;

  void push(T value) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    values_.push_back(std::move(value));
    wake();
  }

  /// The same, unless `most` values wait already: then false, and nothing is kept. For senders
  /// whose pace is a stranger's.
  [[nodiscard]] bool try_push(T value, std::size_t most) {
    const std::lock_guard lock(mutex_);
    if (closed_) return true;
    if (values_.size() >= most) return false;
    values_.push_back(std::move(value));
    wake();
    return true;
  }

  /// All values so far, oldest first; empty when there are none. Never blocks.
  std::vector<T> drain() {
    const std::lock_guard lock(mutex_);
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = ::read(wake_.get(), &count, sizeof count);
    return std::exchange(values_, {});
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    values_.clear();
  }

  /// An eventfd: readable while there is something to drain.
  int fd() const noexcept { return wake_.get(); }

 private:
  explicit Mailbox(UniqueFd wake) : wake_(std::move(wake)) {}

  void wake() noexcept {
    const std::uint64_t one = 1;
    // Only fails when the counter is full, and then the reader is awake already.
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  }

  UniqueFd wake_;
  std::mutex mutex_;
  std::vector<T> values_;
  bool closed_ = false;
};

}  // namespace andiron
