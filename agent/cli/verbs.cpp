// SPDX-License-Identifier: MIT
#include "agent/cli/verbs.hpp"

#include <fmt/format.h>

#include "agent/cli/agent_call.hpp"
#include "agent/cli/bodies.hpp"

namespace andiron::cli {
namespace {

/// A renderer for show(): parses, then renders what it parsed.
template <class Body, class Render>
auto parsed(Result<Body> (*parse)(std::string_view), Render render) {
  return [parse, render](std::string_view text, const Style& style) -> Result<std::string> {
    return render(TRY(parse(text)), style);
  };
}

}  // namespace

ExitStatus run_status(Context& context) {
  return show(context, {"GET", "/v1/status", {}}, parsed(parse_status, render_status));
}

ExitStatus run_models(Context& context, const std::string& name) {
  if (name.empty()) {
    return show(context, {"GET", "/v1/models", {}}, parsed(parse_models, render_models));
  }
  return show(context, {"GET", model_path(name), {}}, parsed(parse_model, render_model));
}

ExitStatus run_drop(Context& context, const std::string& name, bool keep_pages) {
  return show(context, {"POST", model_path(name) + "/drop", drop_request(keep_pages)},
              parsed(parse_model,
                     [](const ModelBody& model, const Style&) { return render_dropped(model); }));
}

ExitStatus run_drop_all(Context& context, bool keep_pages) {
  const Answer answer = ask(context, {"GET", "/v1/models", {}});
  if (!answer.body) return answer.status;
  const auto models = parse_models(*answer.body);
  if (!models) return report(context, models.error());
  ExitStatus worst = ExitStatus::done;
  for (const ModelBody& model : *models) {
    const ExitStatus status = run_drop(context, model.name, keep_pages);
    if (status != ExitStatus::done) worst = status;
  }
  return worst;
}

ExitStatus run_explain(Context& context, const std::string& name) {
  return show(context, {"GET", model_path(name), {}},
              parsed(parse_model,
                     [](const ModelBody& model, const Style&) { return render_explain(model); }));
}

ExitStatus run_plan(Context& context) {
  return show(
      context, {"GET", "/v1/plan", {}},
      parsed(parse_plan, [](const PlanBody& plan, const Style&) { return render_plan(plan); }));
}

ExitStatus run_jobs(Context& context, std::optional<std::uint64_t> cancel) {
  if (!cancel) return show(context, {"GET", "/v1/jobs", {}}, parsed(parse_jobs, render_jobs));
  return show(context, {"DELETE", fmt::format("/v1/jobs/{}", *cancel), {}},
              [id = *cancel](std::string_view, const Style&) -> Result<std::string> {
                return fmt::format("job {} is cancelled\n", id);
              });
}

ExitStatus run_reload(Context& context) {
  return show(context, {"POST", "/v1/reload", {}},
              parsed(parse_reloaded, [](std::uint64_t models, const Style&) {
                return fmt::format("configuration taken, {} {}\n", models,
                                   models == 1 ? "model" : "models");
              }));
}

}  // namespace andiron::cli
