// SPDX-License-Identifier: MIT
#include "client/messages.hpp"

#include <utility>

#include "agent/base/json_walk.hpp"

namespace andiron::client {
namespace {

// A packet is flat; what later versions add may not be.
constexpr std::size_t kDepth = 16;

void take(const JsonEvent& event, Message& message) {
  using Kind = JsonEvent::Kind;
  const std::string& key = event.path[0];
  if (event.kind == Kind::string) {
    std::string* field = key == "op"        ? &message.op
                         : key == "code"    ? &message.code
                         : key == "message" ? &message.text
                         : key == "reason"  ? &message.reason
                                            : nullptr;
    if (field != nullptr) *field = event.text;
  } else if (event.kind == Kind::natural) {
    std::uint64_t* field = key == "protocol"      ? &message.protocol
                           : key == "lease"       ? &message.lease
                           : key == "generation"  ? &message.generation
                           : key == "fds"         ? &message.fds
                           : key == "deadline_ms" ? &message.deadline_ms
                                                  : nullptr;
    if (field != nullptr) *field = event.number;
  } else if (key == "more") {
    message.more = event.truth;
  }
}

}  // namespace

Result<Message> parse_message(std::string_view packet) {
  Message message;
  Result<void> walked = walk_json(packet, kDepth, [&](const JsonEvent& event) -> Result<void> {
    if (event.path.size() == 1) take(event, message);
    return {};
  });
  TRY(std::move(walked).wrap("a packet from the agent"));
  if (message.op.empty())
    return make_error(Errc::bad_format, "a packet from the agent without 'op'");
  return message;
}

std::string lease_request(std::string_view model, std::string_view tier, std::uint32_t wait_ms) {
  std::string text = R"({"op":"lease",)";
  text += model.empty() ? R"("source_fd":0)" : R"("model":)" + quote_json(model);
  text += R"(,"tier":)" + quote_json(tier) + R"(,"wait_ms":)" + std::to_string(wait_ms) + "}";
  return text;
}

}  // namespace andiron::client
