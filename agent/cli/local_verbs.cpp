// SPDX-License-Identifier: MIT
#include "agent/cli/agent_call.hpp"
#include "agent/cli/bodies.hpp"
#include "agent/cli/verbs.hpp"

namespace andiron::cli {

ExitStatus run_doctor(Context& context) {
  return show(context, {"GET", "/v1/doctor", {}},
              [](std::string_view body, const Style& style) -> Result<std::string> {
                return render_doctor(TRY(parse_doctor(body)), style);
              });
}

ExitStatus run_resolve(Context& context, const ResolveOptions& options) {
  const std::string source =
      looks_like_source(options.source) ? absolute_source(options.source) : options.source;
  // The bodies of --json always hold the tensors; for people they are asked for.
  const bool tensors = options.tensors || context.options.json;
  const Result<std::string> body = resolve_request(source, options.also, tensors);
  if (!body) return report(context, body.error());
  return show(context, {"POST", "/v1/resolve", *body},
              [&](std::string_view text, const Style&) -> Result<std::string> {
                return render_resolved(TRY(parse_resolved(text)), options.tensors);
              });
}

}  // namespace andiron::cli
