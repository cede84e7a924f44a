// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"
#include "agent/cli/client.hpp"
#include "agent/cli/context.hpp"
#include "agent/cli/render.hpp"

/// How every verb asks the agent, and how it says that something failed.
namespace andiron::cli {

/// The body of an answer with a 2xx status, or else what to exit with: all is told already.
struct Answer {
  ExitStatus status = ExitStatus::done;
  std::optional<std::string> body;
};

/// What a verb does instead where no agent can be reached.
using WithoutAgent = std::function<ExitStatus(const Error&)>;

/// Connection::open, and again every 100 ms until `deadline` while no agent is there: it may be
/// about to start. Without a deadline, once.
Result<Connection> open_agent(Context& context, std::optional<SteadyTime> deadline);

/// One call: connects, asks, and tells what went wrong.
Answer ask(Context& context, const Request& request, const WithoutAgent& without = {});

/// ask(), then the body as it is (--json), or what `render` makes of it.
ExitStatus show(Context& context, const Request& request,
                const std::function<Result<std::string>(std::string_view, const Style&)>& render,
                const WithoutAgent& without = {});

/// Prints an answer: as it is under --json, where a terminal gets the newline that a body lacks.
void print_body(Context& context, std::string_view body);

/// Tells an error of ours: under --json as an error body on standard output.
ExitStatus report(Context& context, const Error& error);
/// The same where no agent could be reached, with what to do about it.
ExitStatus report_no_agent(Context& context, const Error& error);
/// Why no agent could be reached, in a sentence.
std::string explain_no_agent(const std::string& socket, const Error& error);
/// Tells the agent's error.
ExitStatus report_refusal(Context& context, unsigned status, const std::string& body);

Style style_of(const Context& context);

}  // namespace andiron::cli
