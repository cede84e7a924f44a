// SPDX-License-Identifier: MIT
#include "agent/cli/setup_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/catalog/resolver.hpp"
#include "agent/cli/bodies.hpp"
#include "agent/cli/client.hpp"
#include "agent/cli/setup_json.hpp"
#include "agent/cli/setup_machine.hpp"
#include "agent/cli/setup_proposal.hpp"
#include "agent/cli/setup_render.hpp"
#include "agent/cli/setup_tree.hpp"
#include "agent/cli/setup_write.hpp"
#include "agent/cli/terminal_text.hpp"
#include "agent/config/compile.hpp"

namespace andiron::cli {
namespace {

constexpr const char* kDefaultConfig = "/etc/andiron/andiron.toml";

struct SetupOptions {
  bool write = false;
  std::string output = kDefaultConfig;
  std::string root;  // of a tree to look at in the machine's place: for tests
  std::vector<std::string> models;
};

/// The caller's own variables that say where models are.
std::map<std::string, std::string> store_variables(const SetupOptions& options,
                                                   const Environment& environment) {
  std::map<std::string, std::string> found;
  if (!options.root.empty()) return found;
  for (const char* name : {"OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE", "LLAMA_CACHE"}) {
    if (auto value = environment(name); value && value->substr(0, 1) == "/") {
      found[name] = *std::move(value);
    }
  }
  return found;
}

void fail(Context& context, std::string_view code, const std::string& message) {
  if (context.options.json)
    context.console.print(error_body(code, message) + "\n");
  else
    context.console.error(message, code);
}

Result<Proposal> make_proposal(const SetupOptions& options, Context& context) {
  TreeReader tree(options.root, ScanLimits{}, context.clock);
  catalog::ResolveOptions resolving;
  // Without the caller's variables: the agent will not have them.
  resolving.places = catalog::find_places(tree.root(), {});
  Machine machine =
      scan_machine(tree, resolving.places, store_variables(options, context.environment));
  const SourceCheck check = [&](const std::string& source, const std::vector<std::string>& also) {
    return catalog::resolve(source, also, resolving);
  };
  const WallTime now = context.clock.wall();
  Proposal proposal = propose(std::move(machine), tree, options.models, check, now);
  proposal.config = render_config(proposal, now);
  const config::Compiled compiled = config::compile(proposal.config, options.output);
  if (!compiled.ok()) {
    return make_error(Errc::bad_config,
                      "the proposal is no good config, which is a fault of setup: " +
                          compiled.errors.front().to_string());
  }
  return proposal;
}

/// Each line escaped: a path in the config may hold what turns a terminal's text around.
std::string shown_config(const Proposal& proposal) {
  std::string text;
  std::string_view rest = proposal.config;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    text += escape_text(rest.substr(0, end)) + "\n";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return text;
}

bool says_yes(Context& context, const std::string& question) {
  context.console.print(question + " [y/N] ");
  std::string answer;
  char byte = 0;
  while (answer.size() < 64 && ::read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n') {
    answer += byte;
  }
  return answer == "y" || answer == "Y" || answer == "yes" || answer == "Yes";
}

void say(Context& context, const std::string& sentence) {
  // Under --json standard output is one JSON document.
  if (context.options.json)
    context.console.note(sentence);
  else
    context.console.print(escape_text(sentence) + "\n");
}

/// The agent that runs now, as it describes itself; nullopt where none answers.
std::optional<StatusBody> running_agent(const std::string& socket) {
  auto connection = Connection::open(socket);
  if (!connection) return std::nullopt;
  const auto response = connection->call({"GET", "/v1/status", ""}, std::chrono::seconds(5));
  if (!response || response->status != 200) return std::nullopt;
  auto status = parse_status(response->body);
  if (!status) return std::nullopt;
  return *std::move(status);
}

ExitStatus reload(Context& context, const Proposal& proposal) {
  const auto refuse = [&](const std::string& why) {
    context.console.error("the running agent did not take the new config, and keeps its old one: " +
                          why);
    return ExitStatus::failed;
  };
  auto connection = Connection::open(context.options.socket);
  if (!connection) return refuse(connection.error().message());
  const auto response = connection->call({"POST", "/v1/reload", ""});
  if (!response) return refuse(response.error().message());
  if (response->status / 100 != 2) {
    return refuse(parse_error(response->status, response->body).message);
  }
  say(context, proposal.chosen_bytes == 0
                   ? "The running agent has taken it."
                   : "The running agent has taken it. Your model is being warmed now: andironctl "
                     "status");
  return ExitStatus::done;
}

/// What to do with the file that was written; reloads an agent that runs with it.
ExitStatus say_next(const SetupOptions& options, Context& context, const Proposal& proposal,
                    const std::string& path) {
  const std::string start =
      options.output == kDefaultConfig && ::access("/run/systemd/system", F_OK) == 0
          ? "systemctl enable --now andirond"
          : "andirond --config " + path;
  // A test's tree says nothing of this machine's agent.
  const bool may_ask = options.root.empty() || context.options.socket != kDefaultSocket;
  const auto agent = may_ask ? running_agent(context.options.socket) : std::nullopt;
  if (!agent) {
    say(context, fmt::format("Next: {}   (or, when it runs already: andironctl reload)", start));
    return ExitStatus::done;
  }
  if (agent->config_path == escape_text(path) ||
      agent->config_path == escape_text(options.output)) {
    return reload(context, proposal);
  }
  say(context, fmt::format("The running agent uses {}: to have it use this file, start it with "
                           "andirond --config {}",
                           agent->config_path.empty() ? "another file" : agent->config_path, path));
  return ExitStatus::done;
}

ExitStatus run_setup(const SetupOptions& options, Context& context) {
  Result<Proposal> made = make_proposal(options, context);
  if (!made) {
    fail(context, error_name(made.error().errc()), made.error().message());
    return ExitStatus::failed;
  }
  const Proposal& proposal = *made;
  if (!proposal.unmet.empty()) {
    fail(context, "model_not_found", proposal.unmet.front());
    return ExitStatus::failed;
  }
  bool write = options.write;
  if (!context.options.json) {
    context.console.print(render_report(proposal));
    context.console.print(fmt::format("\nProposed for {}:\n\n", escape_text(options.output)));
    context.console.print(shown_config(proposal) + "\n");
    if (!write && context.console.out_is_terminal() && ::isatty(STDIN_FILENO) == 1) {
      const bool there = ::access(options.output.c_str(), F_OK) == 0;
      write = says_yes(context, fmt::format("Write {}{}?", escape_text(options.output),
                                            there ? " (the file that is there is kept)" : ""));
      if (!write) return ExitStatus::done;
    }
    if (!write) say(context, "Nothing was written: andironctl setup --write does it.");
  }
  std::string written;
  std::optional<WrittenConfig> file;
  if (write) {
    auto result = write_config(options.output, proposal.config);
    if (!result) {
      const bool denied = result.error().errc() == Errc::permission_denied;
      fail(context, error_name(result.error().errc()),
           result.error().message() + (denied ? ": run it with sudo, or give --output" : ""));
      return ExitStatus::failed;
    }
    file = *std::move(result);
    written = file->path;
  }
  if (context.options.json) context.console.print(proposal_json(proposal, written));
  if (!file) return ExitStatus::done;
  say(context, file->unchanged ? fmt::format("{} holds this already.", written)
                               : fmt::format("Wrote {}.", written));
  if (!file->backup.empty()) say(context, "What was there is kept as " + file->backup + ".");
  return say_next(options, context, proposal, written);
}

}  // namespace

void add_setup_command(CLI::App& app, Verb& verb) {
  auto options = std::make_shared<SetupOptions>();
  CLI::App* setup = app.add_subcommand(
      "setup", "Look at this machine and propose a config; works without an agent");
  setup->add_flag("--write", options->write,
                  "Write it without asking; a file that is there is kept as PATH.bak-N");
  setup->add_option("--output", options->output, "Where to")
      ->type_name("PATH")
      ->capture_default_str();
  setup->add_option("--models", options->models, "Keep these, whatever is in use: NAME,NAME")
      ->delimiter(',')
      ->type_name("NAME,...");
  setup->add_option("--root", options->root, "Look at a tree in the machine's place")->group("");
  setup->footer(
      "Examples:\n  andironctl setup\n  sudo andironctl setup --write\n"
      "  andironctl setup --models llama3.2:3b --output ./andiron.toml --write");
  setup->callback([&verb, options] {
    verb = [options](Context& context) { return run_setup(*options, context); };
  });
}

}  // namespace andiron::cli
