// SPDX-License-Identifier: MIT
#include "agent/cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "agent/base/units.hpp"
#include "agent/base/vocabulary.hpp"
#include "agent/cli/bodies.hpp"
#include "agent/cli/terminal_text.hpp"
#include "agent/cli/verbs.hpp"
#if ANDIRON_CLI_SETUP
#include "agent/cli/setup_command.hpp"
#endif

namespace andiron::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  andironctl status                     what is resident, and what is not well
  andironctl warm assistant             bring a configured model in, and wait
  andironctl warm /srv/models/x.gguf    the same for a file inside allow_roots
  andironctl events --follow            who evicts what, as it happens
  andironctl --json status | jq .models the agent's own answer, for scripts

Exit status: 0 done, 1 failed, 2 wrong usage, 3 no agent.)";

/// What CLI11 calls a validator: an empty string is yes. Help texts name the values themselves.
template <class Parse>
CLI::Validator one_of(Parse parse, const char* names) {
  return CLI::Validator(
      [parse, names](std::string& text) {
        return parse(text) ? std::string() : fmt::format("\"{}\" is none of {}", text, names);
      },
      "");
}

CLI::Validator duration() {
  return CLI::Validator(
      [](std::string& text) {
        const auto parsed = parse_duration(text);
        return parsed ? std::string() : parsed.error().context;
      },
      "");
}

/// CLI11 would take "-1" for 2^64 - 1.
std::optional<std::uint64_t> parse_id(const std::string& text) {
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return id;
}

/// A verb of the command line. Its options live as long as what runs it.
template <class Options>
struct Subcommand {
  CLI::App* app;
  std::shared_ptr<Options> options;
};

template <class Options, class Run>
Subcommand<Options> add_verb(CLI::App& app, Verb& verb, const char* name, const char* description,
                             Run run) {
  Subcommand<Options> result{app.add_subcommand(name, description), std::make_shared<Options>()};
  result.app->callback([&verb, options = result.options, run] {
    verb = [options, run](Context& context) { return run(context, *options); };
  });
  return result;
}

struct NoOptions {};

constexpr const char* kTiers = "page-cache, pinned-ram, vram";
constexpr const char* kHolds = "auto, cached, mapped, protected, locked";

bool is_hold(const std::string& text) { return text == "auto" || parse_hold(text); }

void add_warm(CLI::App& app, Verb& verb) {
  struct Parsed : WarmOptions {
    std::string timeout_text;
    bool no_wait = false;
    bool wait_flag = false;  // what happens anyway
  };
  const auto run_parsed = [](Context& context, Parsed& parsed) {
    parsed.wait = !parsed.no_wait;
    if (!parsed.timeout_text.empty()) parsed.timeout = *parse_duration(parsed.timeout_text);
    return run_warm(context, parsed);
  };
  auto [warm, options] =
      add_verb<Parsed>(app, verb, "warm", "Bring a model into memory, and wait for it", run_parsed);
  CLI::Option* boot = warm->add_flag("--boot", options->boot,
                                     "In place of one: wait for all that have preload = \"boot\"");
  warm->add_option("model", options->what, "A configured model, or a path, ollama:..., hf:...")
      ->type_name("NAME|SOURCE")
      ->excludes(boot);
  warm->add_option("--tier", options->tier, fmt::format("Where to: {}", kTiers))
      ->check(one_of(parse_tier, kTiers))
      ->type_name("TIER")
      ->excludes(boot);
  warm->add_option("--hold", options->hold, fmt::format("How firmly: {}", kHolds))
      ->check(one_of(is_hold, kHolds))
      ->type_name("HOLD")
      ->excludes(boot);
  CLI::Option* wait =
      warm->add_flag("--wait", options->wait_flag, "Wait until it is warm (default)");
  CLI::Option* no_wait = warm->add_flag("--no-wait", options->no_wait, "Start it and come back");
  no_wait->excludes(wait)->excludes(boot);
  warm->add_flag("--recharge", options->recharge,
                 "First give its pages back, so that Andiron pays for them and protects them")
      ->excludes(boot);
  warm->add_flag("--strict", options->strict, "Fail where the whole hold was not reached")
      ->excludes(no_wait);
  warm->add_option("--timeout", options->timeout_text,
                   "Wait no longer than this, 30s or 2m, also for an agent to come up;\n"
                   "the loading goes on")
      ->check(duration())
      ->type_name("DURATION")
      ->excludes(no_wait);
  warm->parse_complete_callback([model = options] {
    if (model->what.empty() && !model->boot) throw CLI::RequiredError("NAME|SOURCE or --boot");
  });
  warm->footer(
      "Examples:\n  andironctl warm assistant --hold locked --strict\n"
      "  andironctl warm ollama:llama3.2:3b --timeout 2m\n"
      "  andironctl warm --boot --timeout 5m");
}

void add_model_verbs(CLI::App& app, Verb& verb) {
  struct Named {
    std::string name;
    bool keep_pages = false;
    bool all = false;
  };
  auto [models, shown] =
      add_verb<Named>(app, verb, "models", "List the models, or show one",
                      [](Context& c, const Named& o) { return run_models(c, o.name); });
  models->add_option("name", shown->name, "Show this one")->type_name("NAME");

  auto [drop, dropped] = add_verb<Named>(
      app, verb, "drop", "Let a model go, and give its pages back", [](Context& c, const Named& o) {
        return o.all ? run_drop_all(c, o.keep_pages) : run_drop(c, o.name, o.keep_pages);
      });
  auto* const one = drop->add_option("name", dropped->name, "A model")->type_name("NAME");
  drop->add_flag("--all", dropped->all, "All of them")->excludes(one);
  drop->parse_complete_callback([model = dropped] {
    if (model->name.empty() && !model->all) throw CLI::RequiredError("NAME or --all");
  });
  drop->add_flag("--keep-pages", dropped->keep_pages,
                 "Only let go; the kernel keeps the pages as long as it likes");

  auto [explain, explained] =
      add_verb<Named>(app, verb, "explain", "Say in sentences why a model is as it is",
                      [](Context& c, const Named& o) { return run_explain(c, o.name); });
  explain->add_option("name", explained->name, "A model")->required()->type_name("NAME");

  auto [path, shown_path] =
      add_verb<Named>(app, verb, "path", "Print where a model's copy in pinned RAM is",
                      [](Context& c, const Named& o) { return run_path(c, o.name); });
  path->add_option("name", shown_path->name, "A model")->required()->type_name("NAME");

  struct Program {
    std::string name;
    std::vector<std::string> command;
  };
  auto [program, started] = add_verb<Program>(
      app, verb, "run", "Run a program on a model's copy in pinned RAM",
      [](Context& c, const Program& o) { return run_with(c, o.name, o.command); });
  program->add_option("name", started->name, "A model")->required()->type_name("NAME");
  program->add_option("command", started->command, "The program; {} stands for the copy's path")
      ->required()
      ->type_name("-- CMD {}");
  program->footer("Example:\n  andironctl run assistant -- llama-cli -m {} -p Hello");

  auto [resolve, options] = add_verb<ResolveOptions>(
      app, verb, "resolve", "Show which files a source means; works without an agent",
      [](Context& c, const ResolveOptions& o) { return run_resolve(c, o); });
  resolve->add_option("source", options->source, "A path, a folder, ollama:..., hf:..., guest:...")
      ->required()
      ->type_name("SOURCE");
  resolve->add_option("--also", options->also, "A companion to keep warm with it; may be repeated")
      ->type_name("SOURCE")
      ->expected(1)
      ->take_all();
  resolve->add_flag("--tensors", options->tensors, "List the tensors");
  resolve->add_flag("--local", options->local, "Do not ask the agent");
}

void add_agent_verbs(CLI::App& app, Verb& verb) {
  add_verb<NoOptions>(app, verb, "status", "Show tiers, models, and what is not well",
                      [](Context& c, const NoOptions&) { return run_status(c); });

  auto [events, options] =
      add_verb<EventsOptions>(app, verb, "events", "Show who evicted what, and what the agent did",
                              [](Context& c, const EventsOptions& o) { return run_events(c, o); });
  events->add_option("--since", options->since, "From this number, time or duration ago on: 12, 1h")
      ->type_name("WHEN");
  events->add_flag("-f,--follow", options->follow, "Go on until Ctrl-C");

  add_verb<NoOptions>(app, verb, "plan", "Show what the agent would do now, and why",
                      [](Context& c, const NoOptions&) { return run_plan(c); });
  add_verb<NoOptions>(app, verb, "doctor",
                      "Show what this machine allows, and what would help; works without an agent",
                      [](Context& c, const NoOptions&) { return run_doctor(c); });

  struct Jobs {
    std::string cancel;
  };
  auto [jobs, chosen] =
      add_verb<Jobs>(app, verb, "jobs", "List what is at work, or cancel it",
                     [](Context& c, const Jobs& o) { return run_jobs(c, parse_id(o.cancel)); });
  jobs->add_option("--cancel", chosen->cancel, "Cancel this job")
      ->check(one_of(parse_id, "the numbers that `andironctl jobs` shows"))
      ->type_name("ID");

  add_verb<NoOptions>(app, verb, "reload", "Have the agent take its configuration file anew",
                      [](Context& c, const NoOptions&) { return run_reload(c); });
}

Invocation usage_error(const std::string& message, bool json) {
  Invocation result;
  result.status = ExitStatus::usage;
  result.text = json ? error_body("bad_request", message) + '\n' : message;
  return result;
}

/// Whether the caller wants JSON, found without the parser, which has just failed.
bool wants_json(const std::vector<std::string>& arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::find(arguments.begin(), end, "--json") != end;
}

}  // namespace

Invocation parse_command_line(const std::vector<std::string>& arguments) {
  Invocation result;
  CLI::App app(
      "andironctl keeps the weights of AI models ready to run: the command line of andirond.",
      "andironctl");
  app.require_subcommand(1);
  app.fallthrough();  // inherited by every verb: global options may follow it
  app.get_formatter()->column_width(32);
  app.set_version_flag("--version", "andironctl " ANDIRON_VERSION);
  app.footer(kExamples);
  app.add_option("--socket", result.options.socket,
                 fmt::format("The agent's socket, else of ANDIRON_SOCKET, else {}", kDefaultSocket))
      ->type_name("PATH");
  app.add_flag("--json", result.options.json, "Print the agent's answers unchanged, errors too");
  add_agent_verbs(app, result.verb);
  add_warm(app, result.verb);
  add_model_verbs(app, result.verb);
#if ANDIRON_CLI_SETUP
  add_setup_command(app, result.verb);
#endif
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    result.verb = nullptr;
    result.text = app.help();
  } catch (const CLI::CallForVersion& version) {
    result.verb = nullptr;
    result.text = std::string(version.what()) + '\n';
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what(), wants_json(arguments));
  }
  return result;
}

ExitStatus run(const std::vector<std::string>& arguments, Console& console, const Clock& clock,
               const Environment& environment) {
  Invocation invocation = parse_command_line(arguments);
  ExitStatus status = invocation.status;
  if (invocation.verb) {
    if (invocation.options.socket.empty()) {
      invocation.options.socket = environment("ANDIRON_SOCKET").value_or("");
    }
    if (invocation.options.socket.empty()) invocation.options.socket = kDefaultSocket;
    Context context{invocation.options, console, clock, environment};
    status = invocation.verb(context);
  } else if (status == ExitStatus::done || wants_json(arguments)) {
    console.print(invocation.text);
  } else {
    console.error(invocation.text);
    console.note("andironctl --help says how.");
  }
  if (console.write_error() != 0) {
    console.error(fmt::format("write: {}", std::strerror(console.write_error())), "io_error");
    return status == ExitStatus::done ? ExitStatus::failed : status;
  }
  return status;
}

}  // namespace andiron::cli
