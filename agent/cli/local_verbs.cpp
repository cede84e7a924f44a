// SPDX-License-Identifier: MIT
// Verbs that also work without an agent: they then do here what it would do.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "agent/catalog/resolved_json.hpp"
#include "agent/catalog/resolver.hpp"
#include "agent/cli/agent_call.hpp"
#include "agent/cli/bodies.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/os/probe_os.hpp"
#include "agent/stream/read_backend.hpp"

namespace andiron::cli {
namespace {

/// Where probes may write a few pages: on a disk, and writable for everybody.
constexpr const char* kScratch = "/var/tmp";

std::map<std::string, std::string> whole_environment() {
  std::map<std::string, std::string> result;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

/// What this process gets, with the missing agent in front. Nothing here is an error: that no agent
/// runs is one of the answers.
ExitStatus doctor_here(Context& context, const Error& why) {
  std::vector<os::Capability> found{
      {"agent", os::Capability::State::off, explain_no_agent(context.options.socket, why), ""}};
  for (os::Capability& capability : os::probe_os(kScratch))
    found.push_back(std::move(capability));
  found.push_back(stream::probe_uring());
  const std::string body = doctor_body(found);
  if (context.options.json) {
    print_body(context, body);
    return ExitStatus::done;
  }
  const Result<std::vector<CapabilityBody>> parsed = parse_doctor(body);
  if (!parsed) return report(context, parsed.error());
  context.console.print(parsed->front().reason + ".\n");
  context.console.print(::geteuid() == 0
                            ? "An agent started here would get this:\n\n"
                            : "This user gets this; an agent started by root may get more:\n\n");
  context.console.print(render_doctor({parsed->begin() + 1, parsed->end()}, style_of(context)));
  return ExitStatus::done;
}

ExitStatus show_resolved(Context& context, std::string_view body, bool tensors) {
  if (context.options.json) {
    print_body(context, body);
    return ExitStatus::done;
  }
  const Result<ResolvedBody> parsed = parse_resolved(body);
  if (!parsed) return report(context, parsed.error());
  context.console.print(render_resolved(*parsed, tensors));
  return ExitStatus::done;
}

/// With this user's rights, and without the agent's allow_roots: its owner may look anywhere.
ExitStatus resolve_here(Context& context, const ResolveOptions& options, bool tensors) {
  catalog::ResolveOptions how;
  how.places = catalog::find_places("", whole_environment());
  how.want_tensors = tensors;
  const auto resolved = catalog::resolve(options.source, options.also, how);
  if (!resolved) return report(context, resolved.error());
  return show_resolved(context, catalog::to_json(*resolved), options.tensors);
}

}  // namespace

ExitStatus run_doctor(Context& context) {
  return show(
      context, {"GET", "/v1/doctor", {}},
      [](std::string_view body, const Style& style) -> Result<std::string> {
        return render_doctor(TRY(parse_doctor(body)), style);
      },
      [&](const Error& why) { return doctor_here(context, why); });
}

ExitStatus run_resolve(Context& context, const ResolveOptions& given) {
  ResolveOptions options = given;
  if (looks_like_source(options.source)) options.source = absolute_source(options.source);
  for (std::string& companion : options.also)
    companion = absolute_source(companion);
  // The bodies of --json always hold the tensors; for people they are asked for.
  const bool tensors = options.tensors || context.options.json;
  if (options.local) return resolve_here(context, options, tensors);
  const Result<std::string> body = resolve_request(options.source, options.also, tensors);
  if (!body) return report(context, body.error());
  return show(
      context, {"POST", "/v1/resolve", *body},
      [&](std::string_view text, const Style&) -> Result<std::string> {
        return render_resolved(TRY(parse_resolved(text)), options.tensors);
      },
      [&](const Error&) { return resolve_here(context, options, tensors); });
}

}  // namespace andiron::cli
