// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/cli/context.hpp"

/// One function a verb: what it asks, what it prints, what it exits with. Thread: one. Block: as
/// long as the agent takes. On failure: told already; the exit status says so.
namespace andiron::cli {

struct WarmOptions {
  std::string what;   // a configured model's name, or a source
  bool boot = false;  // instead: every model with preload = "boot"
  std::string tier;   // a name that parse_tier() takes, or empty for the model's own
  std::string hold;
  bool wait = true;
  bool recharge = false;  // give its pages back first
  bool quiet = false;     // say nothing of a good end
  bool strict = false;    // a hold that was not reached whole is a failure
  std::optional<std::chrono::milliseconds> timeout;  // for an agent to come up, too
};

struct EventsOptions {
  std::string since;  // a seq, a time or a duration; empty for what the agent still has
  bool follow = false;
};

struct ResolveOptions {
  std::string source;
  std::vector<std::string> also;
  bool tensors = false;
  bool local = false;  // without the agent, even where one runs
};

ExitStatus run_status(Context& context);
ExitStatus run_models(Context& context, const std::string& name);  // empty: all
ExitStatus run_warm(Context& context, const WarmOptions& options);
ExitStatus run_drop(Context& context, const std::string& name, bool keep_pages);
/// Every model that the agent knows, one after the other, whatever becomes of those before.
ExitStatus run_drop_all(Context& context, bool keep_pages);
/// Prints where the model's copy in pinned RAM is.
ExitStatus run_path(Context& context, const std::string& name);
/// Becomes the command, with each {} in its words replaced by that place; brings the model in first
/// where it is not there. Comes back only on failure.
ExitStatus run_with(Context& context, const std::string& name,
                    const std::vector<std::string>& command);
ExitStatus run_events(Context& context, const EventsOptions& options);
ExitStatus run_explain(Context& context, const std::string& name);
ExitStatus run_plan(Context& context);
ExitStatus run_doctor(Context& context);
ExitStatus run_resolve(Context& context, const ResolveOptions& options);
ExitStatus run_jobs(Context& context, std::optional<std::uint64_t> cancel);
ExitStatus run_reload(Context& context);

/// Whether text can mean weights when no model has that name: it has a known prefix, a slash or a
/// weight file's ending, or a file is there.
bool looks_like_source(const std::string& text);
/// A relative path as an absolute one, since the agent's working folder is another. Prefixed
/// sources and absolute paths stay as they are; nothing is normalised: ".." after a symlink means
/// something.
std::string absolute_source(const std::string& text);

}  // namespace andiron::cli
