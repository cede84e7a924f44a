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

Result<std::string> path_in(const ModelBody& model) {
  if (!model.pinned_path.empty()) return model.pinned_path;
  return make_error(Errc::unavailable,
                    fmt::format("{} is not in pinned RAM: andironctl warm {} --tier pinned-ram",
                                model.name, model.name));
}

/// What the agent says of the model; nullopt when that failed, which is told, with the status.
std::optional<ModelBody> look(Context& context, const std::string& name, ExitStatus& status) {
  const Answer answer = ask(context, {"GET", model_path(name), {}});
  status = answer.status;
  if (!answer.body) return std::nullopt;
  Result<ModelBody> model = parse_model(*answer.body);
  if (model) return std::move(*model);
  status = report(context, model.error());
  return std::nullopt;
}

/// Where the model's copy is, brought in first where there is none.
std::optional<std::string> find_path(Context& context, const std::string& name,
                                     ExitStatus& status) {
  std::optional<ModelBody> model = look(context, name, status);
  if (model && model->pinned_path.empty()) {
    WarmOptions warm;
    warm.what = name;
    warm.tier = "pinned-ram";
    warm.quiet = true;
    status = run_warm(context, warm);
    if (status != ExitStatus::done) return std::nullopt;
    model = look(context, name, status);
  }
  if (!model) return std::nullopt;
  const Result<std::string> path = path_in(*model);
  if (path) return *path;
  status = report(context, path.error());
  return std::nullopt;
}

}  // namespace

ExitStatus run_path(Context& context, const std::string& name) {
  return show(context, {"GET", model_path(name), {}},
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
