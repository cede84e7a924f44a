// SPDX-License-Identifier: MIT
#include "agent/tier/prefault.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>

namespace andiron::tier {
namespace {

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; glibc knows it from 2.35 on
#endif

/// Well below what anyone notices, as a cancel wakes nobody.
constexpr std::chrono::milliseconds kLook{20};

Result<void> populate_for_writing(const MappedRegion& mapping, ByteRange range) {
  while (::madvise(mapping.data() + range.offset, range.length, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    // Before 5.14: the pages then come one by one, as they are read into.
    if (errno == EINVAL) return {};
    // EFAULT: the tmpfs is full, or the memory limit is met.
    return make_error(Errc::no_headroom, std::string("no memory for the copy (") +
                                             std::generic_category().message(errno) + ")");
  }
  return {};
}

}  // namespace

Prefault::Prefault(const MappedRegion& mapping, std::uint64_t ahead, unsigned threads)
    : mapping_(mapping), ahead_(ahead) {
  // Born with every signal blocked, as lanes are.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (unsigned i = 0; i < threads; ++i)
      threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // No more threads to be had: those that there are do it, or the reads themselves.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Prefault::~Prefault() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
}

/// With the lock held.
std::optional<ByteRange> Prefault::next() {
  if (next_ >= mapping_.size() || next_ >= asked_ + ahead_) return std::nullopt;
  const ByteRange step{next_, std::min<std::uint64_t>(kStep, mapping_.size() - next_)};
  next_ = step.end();
  return step;
}

void Prefault::work() noexcept {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !error_) {
    const std::optional<ByteRange> step = next();
    if (!step) {
      if (next_ >= mapping_.size()) return;
      changed_.wait(lock);
      continue;
    }
    under_way_.insert(step->offset);
    lock.unlock();
    Result<void> done = populate_for_writing(mapping_, *step);
    lock.lock();
    under_way_.erase(step->offset);
    if (!done && !error_) error_ = std::move(done).error();
    changed_.notify_all();
  }
}

Result<void> Prefault::wait_for(std::uint64_t end, const stream::LaneContext& lane,
                                const stream::TransferControl& control) {
  if (threads_.empty()) return {};
  std::unique_lock lock(mutex_);
  asked_ = std::max(asked_, end);
  changed_.notify_all();
  for (;;) {
    if (error_) return *error_;
    const std::uint64_t there = under_way_.empty() ? next_ : *under_way_.begin();
    if (there >= std::min<std::uint64_t>(end, mapping_.size())) return {};
    changed_.wait_for(lock, kLook);
    lane.beat();
    TRY(control.check(lane.clock.now()));
  }
}

}  // namespace andiron::tier
