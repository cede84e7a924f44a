// SPDX-License-Identifier: MIT
#include "agent/cli/agent_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "agent/cli/bodies.hpp"
#include "agent/cli/terminal_text.hpp"

namespace andiron::cli {
namespace {

using namespace std::chrono_literals;

/// An agent that starts is there within a second; nobody notices a tenth of that.
constexpr auto kLookAgain = 100ms;

/// Nobody listens there, or nobody yet.
bool is_absence(const Error& error) {
  const int value = error.code.category() == std::generic_category() ? error.code.value() : 0;
  return value == ENOENT || value == ENOTDIR || value == ECONNREFUSED;
}

/// The exit status of a connection that could not be made.
bool is_usage(const Error& error) { return error.errc() == Errc::bad_request; }

void tell(Context& context, std::string_view code, const std::string& message) {
  if (context.options.json) {
    context.console.print(error_body(code, message) + '\n');
  } else {
    context.console.error(message, code);
  }
}

}  // namespace

Style style_of(const Context& context) { return {context.console.colour(), context.clock.wall()}; }

void print_body(Context& context, std::string_view body) {
  context.console.print(body);
  if (context.console.out_is_terminal() && (body.empty() || body.back() != '\n')) {
    context.console.print("\n");
  }
}

ExitStatus report(Context& context, const Error& error) {
  // Contexts of `unavailable` are sentences here: the code's own words would add nothing.
  const bool whole = error.errc() == Errc::unavailable && !error.context.empty();
  tell(context, error_name(error.errc()), whole ? error.context : error.message());
  return ExitStatus::failed;
}

std::string explain_no_agent(const std::string& socket, const Error& error) {
  switch (error.code.category() == std::generic_category() ? error.code.value() : 0) {
    case ENOENT:
    case ENOTDIR:
      return fmt::format(
          "no agent runs at {}: there is no such socket; start andirond, or say "
          "--socket PATH",
          socket);
    case ECONNREFUSED:
      return fmt::format(
          "no agent runs at {}: the socket is there, but nobody listens; start "
          "andirond",
          socket);
    case EACCES:
    case EPERM:
      return fmt::format(
          "you may not talk to the agent at {}: it is for root and the group "
          "andiron; join the group and log in anew, or use sudo",
          socket);
    default:
      return fmt::format("no agent answers at {}: {}", socket, error.message());
  }
}

ExitStatus report_no_agent(Context& context, const Error& error) {
  if (is_usage(error)) {
    report(context, error);
    return ExitStatus::usage;
  }
  const bool denied = error.errc() == Errc::permission_denied;
  const std::string_view code = error_name(denied ? Errc::permission_denied : Errc::unavailable);
  const std::string message = explain_no_agent(context.options.socket, error);
  tell(context, code, message);
  return ExitStatus::no_agent;
}

ExitStatus report_refusal(Context& context, unsigned status, const std::string& body) {
  const ErrorBody error = parse_error(status, body);
  if (context.options.json) {
    print_body(context, body.empty() ? error_body(error.code, error.message) : body);
    return ExitStatus::failed;
  }
  context.console.error(error.message, error.code);
  for (const std::string& detail : error.details) {
    const bool told = error.message.find(detail) != std::string::npos;
    if (!told) context.console.note("  " + detail);
  }
  return ExitStatus::failed;
}

Result<Connection> open_agent(Context& context, std::optional<SteadyTime> deadline) {
  for (;;) {
    Result<Connection> connection = Connection::open(context.options.socket);
    if (connection || !deadline || !is_absence(connection.error())) return connection;
    const SteadyTime now = context.clock.now();
    if (now >= *deadline) return connection;
    std::this_thread::sleep_for(std::min<SteadyTime::duration>(kLookAgain, *deadline - now));
  }
}

Answer ask(Context& context, const Request& request, const WithoutAgent& without) {
  Result<Connection> connection = Connection::open(context.options.socket);
  if (!connection) {
    const Error& error = connection.error();
    return {without && !is_usage(error) ? without(error) : report_no_agent(context, error), {}};
  }
  Result<Response> response = connection->call(request);
  if (!response) return {report(context, response.error()), {}};
  if (response->status / 100 != 2) {
    return {report_refusal(context, response->status, response->body), {}};
  }
  return {ExitStatus::done, std::move(response->body)};
}

ExitStatus show(Context& context, const Request& request,
                const std::function<Result<std::string>(std::string_view, const Style&)>& render,
                const WithoutAgent& without) {
  const Answer answer = ask(context, request, without);
  if (!answer.body) return answer.status;
  if (context.options.json) {
    print_body(context, *answer.body);
    return ExitStatus::done;
  }
  const Result<std::string> text = render(*answer.body, style_of(context));
  if (!text) return report(context, text.error());
  context.console.print(*text);
  return ExitStatus::done;
}

}  // namespace andiron::cli
