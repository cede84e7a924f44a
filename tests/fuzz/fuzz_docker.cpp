// SPDX-License-Identifier: MIT
// What a hostile dockerd or container runtime may send: a reply cut as the kernel may cut it, its
// body as lines of events, and the same bytes as every other message that we read. The cuts come
// from the first byte; whole and cut input must mean the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/check.hpp"
#include "agent/probe/container_event.hpp"
#include "agent/probe/container_table.hpp"
#include "agent/probe/docker_messages.hpp"
#include "agent/probe/hook_report.hpp"
#include "agent/probe/http_reply.hpp"

namespace {

using namespace andiron::probe;

// Small, so that it is met within the lengths that a fuzzer likes.
constexpr std::size_t kMaxLine = 512;

struct Seen {
  std::vector<std::string> lines;
  std::uint64_t dropped = 0;
  unsigned status = 0;
  bool good = true;
  bool done = false;
  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen read(std::string_view text, std::size_t piece) {
  HttpReply reply;
  LineSplitter splitter(kMaxLine);
  Seen seen;
  while (!text.empty() && seen.good) {
    const std::size_t size = std::min(piece, text.size());
    const auto fed = reply.feed(text.substr(0, size), [&](std::string_view body) {
      splitter.feed(body, [&](std::string_view line) {
        CHECK(!line.empty() && line.size() <= kMaxLine);
        seen.lines.emplace_back(line);
      });
    });
    seen.good = fed.has_value();
    text.remove_prefix(size);
  }
  seen.dropped = splitter.dropped();
  seen.status = reply.status();
  seen.done = reply.done();
  return seen;
}

bool good_or_empty(const std::string& word) { return word.empty() || is_container_word(word); }

void use_messages(std::string_view text, ContainerTable& table) {
  if (const auto event = parse_docker_event(text)) {
    CHECK(is_container_word(event->id) && is_container_word(event->action));
    CHECK(good_or_empty(event->name));
  }
  if (const auto list = parse_docker_list(text, 16)) CHECK(list->size() <= 16);
  if (const auto state = parse_docker_state(text)) CHECK(!state->pid || *state->pid > 0);
  if (auto report = parse_hook_report(text, andiron::WallTime{})) {
    CHECK(good_or_empty(report->event.id) && good_or_empty(report->event.name));
    CHECK(report->bundle.empty() || report->bundle.front() == '/');
    const auto outcome = table.take(std::move(report->event), andiron::SteadyTime{});
    CHECK(outcome.warm.size() <= 1 && outcome.news.size() <= 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = std::size_t{data[0]} + 1;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Seen whole = read(text, text.size());
  CHECK(whole == read(text, piece));
  ContainerTable table;
  table.follow({"ollama"});
  for (const std::string& line : whole.lines)
    use_messages(line, table);
  use_messages(text, table);
  return 0;
}
