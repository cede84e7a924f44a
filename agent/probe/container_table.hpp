// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/probe/container_event.hpp"

namespace andiron::probe {

/// What all sources said, made one: each start of a container that somebody follows is told once,
/// however often and in whichever order the sources report it, and whatever they missed.
///
/// A start is known by its first process. Where a source does not know that, by its time: what
/// follows a start of the same container within kSameStart is that start again. Reports that are
/// older than what is known (a daemon replays its past to who reconnects) change nothing.
/// Pure: no clock, no fds. Thread: one.
class ContainerTable {
 public:
  /// A runtime, its hook and the kernel tell one start within a second of each other; nobody's
  /// container that restarts so fast has its models gone in between.
  static constexpr std::chrono::seconds kSameStart{3};
  /// A container that crashes and is started again all the time costs one look a second.
  static constexpr std::chrono::seconds kPace{1};
  static constexpr std::size_t kMaxRecords = 512;

  struct Outcome {
    std::vector<std::string> warm;     // names, as followed: warm what belongs to them now
    std::vector<ContainerEvent> news;  // not known before; `name` is the followed one
  };

  /// The names, or ids, to hear of. What is known of others is forgotten.
  void follow(std::set<std::string> names);
  const std::set<std::string>& followed() const noexcept { return followed_; }

  Outcome take(ContainerEvent event, SteadyTime now);
  /// Names whose warming was put off, and whose time has come. To be called once a second or so.
  std::vector<std::string> due(SteadyTime now);

  bool running(std::string_view name) const;
  std::size_t size() const noexcept { return records_.size(); }

 private:
  struct Record {
    ContainerEvent last_start;  // `name` is the followed one
    bool running = false;
    WallTime stopped;  // where it does not run
  };
  struct Pace {
    SteadyTime warmed;
    std::string runtime;  // whose start that was
    bool put_off = false;
  };

  std::vector<Record>::iterator find(const ContainerEvent& event);
  /// The followed name that the event is about; empty where there is none.
  std::string name_of(const ContainerEvent& event, std::vector<Record>::iterator known) const;
  void start(ContainerEvent event, std::vector<Record>::iterator known, SteadyTime now,
             Outcome& outcome);
  void stop(ContainerEvent event, std::vector<Record>::iterator known, Outcome& outcome);
  void ask_for_warm(const std::string& name, const std::string& runtime, bool restart,
                    SteadyTime now, Outcome& outcome);
  void add(Record record);

  std::set<std::string> followed_;
  std::vector<Record> records_;  // few: those followed, and their predecessors
  std::map<std::string, Pace, std::less<>> pace_;
};

}  // namespace andiron::probe
