// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "agent/cli/agent_call.hpp"
#include "agent/cli/bodies.hpp"
#include "agent/cli/terminal_text.hpp"
#include "agent/cli/verbs.hpp"

namespace andiron::cli {

ExitStatus run_events(Context& context, const EventsOptions& options) {
  Result<Connection> connection = Connection::open(context.options.socket);
  if (!connection) return report_no_agent(context, connection.error());

  Console& console = context.console;
  std::optional<Error> garbage;
  StreamOptions stream;
  stream.output = console.out_fd();
  stream.on_line = [&](std::string_view line) {
    if (context.options.json) {
      console.print(line);
    } else if (const Result<EventBody> event = parse_event(line)) {
      console.print(render_event(*event, style_of(context)));
    } else {
      garbage = event.error();
    }
    return !garbage && !console.reader_gone() && console.write_error() == 0;
  };
  std::string target = options.follow ? "/v1/events?follow=1" : "/v1/events";
  if (!options.since.empty()) {
    target += (options.follow ? "&since=" : "?since=") + encode_segment(options.since);
  }
  const Result<StreamOutcome> outcome = connection->stream({"GET", target, {}}, stream);

  if (!outcome) return report(context, outcome.error());
  if (garbage) return report(context, *garbage);
  if (outcome->end == StreamEnd::refused) {
    return report_refusal(context, outcome->status, outcome->body);
  }
  if (options.follow && outcome->end == StreamEnd::complete) {
    // It would have gone on: the agent stopped, or cut a reader that was too slow.
    return report(context, make_error(Errc::unavailable, "the agent ended the stream of events"));
  }
  return ExitStatus::done;
}

}  // namespace andiron::cli
