// SPDX-License-Identifier: MIT
#include "agent/probe/container_table.hpp"

#include <algorithm>
#include <utility>

namespace andiron::probe {
namespace {

/// A hook need not know whose it is.
bool may_be_same_runtime(const std::string& a, const std::string& b) {
  return a == b || a == "oci" || b == "oci" || a.empty() || b.empty();
}

bool same_start(const ContainerEvent& known, bool running, WallTime stopped,
                const ContainerEvent& told) {
  if (known.pid && told.pid) return *known.pid == *told.pid;
  return running ? told.time <= known.time + ContainerTable::kSameStart : told.time <= stopped;
}

/// Keeps what only one of two reports of the same start knows.
void learn(ContainerEvent& known, const ContainerEvent& told) {
  if (!known.pid) known.pid = told.pid;
  if (known.id.empty()) known.id = told.id;
  if (known.runtime.empty() || known.runtime == "oci") known.runtime = told.runtime;
}

}  // namespace

void ContainerTable::follow(std::set<std::string> names) {
  followed_ = std::move(names);
  std::erase_if(records_,
                [&](const Record& record) { return !followed_.contains(record.last_start.name); });
  std::erase_if(pace_, [&](const auto& entry) { return !followed_.contains(entry.first); });
}

std::vector<ContainerTable::Record>::iterator ContainerTable::find(const ContainerEvent& event) {
  return std::find_if(records_.begin(), records_.end(), [&](const Record& record) {
    const ContainerEvent& known = record.last_start;
    if (!may_be_same_runtime(known.runtime, event.runtime)) return false;
    if (!known.id.empty() && !event.id.empty()) return known.id == event.id;
    return !event.name.empty() && known.name == event.name;
  });
}

std::string ContainerTable::name_of(const ContainerEvent& event,
                                    std::vector<Record>::iterator known) const {
  for (const std::string* word : {&event.name, &event.id}) {
    if (!word->empty() && followed_.contains(*word)) return *word;
  }
  // A cgroup has the id only; but a container that has got another name is not ours any longer.
  const bool named = !event.name.empty();
  return known != records_.end() && !named ? known->last_start.name : "";
}

ContainerTable::Outcome ContainerTable::take(ContainerEvent event, SteadyTime now) {
  Outcome outcome;
  const auto known = find(event);
  event.name = name_of(event, known);
  if (event.name.empty()) {
    // A rename away; of a stop, whatever the name, the id says enough.
    if (known != records_.end()) {
      event.name = known->last_start.name;
      if (event.kind == ContainerEvent::Kind::stopped)
        stop(std::move(event), known, outcome);
      else
        records_.erase(known);
    }
  } else if (event.kind == ContainerEvent::Kind::started) {
    start(std::move(event), known, now, outcome);
  } else {
    stop(std::move(event), known, outcome);
  }
  return outcome;
}

void ContainerTable::start(ContainerEvent event, std::vector<Record>::iterator known,
                           SteadyTime now, Outcome& outcome) {
  const bool again = known != records_.end();
  if (again && same_start(known->last_start, known->running, known->stopped, event)) {
    learn(known->last_start, event);
    // A stop of an earlier run, told late: with the pid we know better.
    known->running = known->running || (event.pid && event.pid == known->last_start.pid);
    if (known->last_start.name == event.name) return;
    known->last_start.name = event.name;  // renamed to a name that is followed: as if it started
  } else if (again) {
    if (event.id.empty()) event.id = known->last_start.id;
    *known = Record{event, true, {}};
  } else {
    add(Record{event, true, {}});
  }
  ask_for_warm(event.name, event.runtime, again, now, outcome);
  outcome.news.push_back(std::move(event));
}

void ContainerTable::stop(ContainerEvent event, std::vector<Record>::iterator known,
                          Outcome& outcome) {
  if (known == records_.end() || !known->running) return;
  const ContainerEvent& start = known->last_start;
  const bool of_earlier_run =
      start.pid && event.pid ? *start.pid != *event.pid : event.time < start.time;
  if (of_earlier_run) return;
  known->running = false;
  known->stopped = event.time;
  learn(event, start);
  event.runtime = start.runtime;
  outcome.news.push_back(std::move(event));
}

void ContainerTable::ask_for_warm(const std::string& name, const std::string& runtime, bool restart,
                                  SteadyTime now, Outcome& outcome) {
  const auto [entry, first] = pace_.try_emplace(name, Pace{now, runtime, false});
  Pace& pace = entry->second;
  if (!first) {
    // A service and the container that it starts may bear one name: one start, seen from two sides.
    const bool other_side = !restart && !may_be_same_runtime(pace.runtime, runtime);
    if (other_side && now - pace.warmed < kSameStart) return;
    if (now - pace.warmed < kPace) {
      pace.put_off = true;
      return;
    }
    pace = Pace{now, runtime, false};
  }
  outcome.warm.push_back(name);
}

std::vector<std::string> ContainerTable::due(SteadyTime now) {
  std::vector<std::string> names;
  for (auto& [name, pace] : pace_) {
    if (!pace.put_off || now - pace.warmed < kPace) continue;
    pace.put_off = false;
    if (!running(name)) continue;  // it has gone again: its next start will ask
    pace.warmed = now;
    names.push_back(name);
  }
  return names;
}

bool ContainerTable::running(std::string_view name) const {
  return std::any_of(records_.begin(), records_.end(), [&](const Record& record) {
    return record.running && record.last_start.name == name;
  });
}

void ContainerTable::add(Record record) {
  // Made anew under its old name: a runtime has each name once.
  std::erase_if(records_, [&](const Record& old) {
    return old.last_start.name == record.last_start.name &&
           old.last_start.runtime == record.last_start.runtime;
  });
  if (records_.size() >= kMaxRecords) {
    const auto stopped = std::find_if(records_.begin(), records_.end(),
                                      [](const Record& old) { return !old.running; });
    records_.erase(stopped == records_.end() ? records_.begin() : stopped);
  }
  records_.push_back(std::move(record));
}

}  // namespace andiron::probe
