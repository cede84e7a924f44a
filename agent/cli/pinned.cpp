// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "agent/cli/agent_call.hpp"
#include "agent/cli/bodies.hpp"
#include "agent/cli/terminal_text.hpp"
#include "agent/cli/verbs.hpp"

namespace andiron::cli {
namespace {

constexpr std::string_view kPlace = "{}";

Request ask_for(const std::string& name) {
  return {"GET", "/v1/models/" + encode_segment(name), {}};
}

Result<std::string> path_in(const ModelBody& model) {
  if (!model.pinned_path.empty()) return model.pinned_path;
  return make_error(Errc::unavailable,
                    fmt::format("{} is not in pinned RAM: andironctl warm {} --tier pinned-ram",
                                model.name, model.name));
}

/// Where the model's copy is, brought in first where there is none.
std::optional<std::string> find_path(Context& context, const std::string& name,
                                     ExitStatus& status) {
  for (const bool first : {true, false}) {
    Result<Connection> connection = Connection::open(context.options.socket);
    if (!connection) {
      status = report_no_agent(context, connection.error());
      return std::nullopt;
    }
    const Result<Response> response = connection->call(ask_for(name));
    if (response && response->status / 100 != 2) {
      status = report_refusal(context, response->status, response->body);
      return std::nullopt;
    }
    const Result<ModelBody> model =
        response ? parse_model(response->body) : Result<ModelBody>(response.error());
    const Result<std::string> path = model ? path_in(*model) : Result<std::string>(model.error());
    if (path) return *path;
    if (!model || !first) {
      status = report(context, path.error());
      return std::nullopt;
    }
    WarmOptions warm;
    warm.what = name;
    warm.tier = "pinned-ram";
    warm.quiet = true;
    status = run_warm(context, warm);
    if (status != ExitStatus::done) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

ExitStatus run_path(Context& context, const std::string& name) {
  return show(context, ask_for(name),
              [](std::string_view body, const Style&) -> Result<std::string> {
                const ModelBody model = TRY(parse_model(body));
                return TRY(path_in(model)) + "\n";
              });
}

ExitStatus run_with(Context& context, const std::string& name,
                    const std::vector<std::string>& command) {
  ExitStatus status = ExitStatus::failed;
  const std::optional<std::string> path = find_path(context, name, status);
  if (!path) return status;
  std::vector<std::string> words = command;
  for (std::string& word : words) {
    for (std::size_t at = word.find(kPlace); at != std::string::npos;
         at = word.find(kPlace, at + path->size())) {
      word.replace(at, kPlace.size(), *path);
    }
  }
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return report(context, make_system_error(errno, escape_text(words.front())));
}

}  // namespace andiron::cli
