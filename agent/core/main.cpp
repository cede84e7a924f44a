// SPDX-License-Identifier: MIT
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "agent/base/log.hpp"
#include "agent/base/units.hpp"
#include "agent/config/compile.hpp"
#include "agent/core/agent.hpp"
#include "agent/core/pinned_keeper.hpp"
#include "agent/core/runtime_dir.hpp"
#include "agent/core/version.hpp"
#include "agent/os/memory.hpp"

extern char** environ;

namespace {

using namespace andiron;

constexpr const char* kDefaultConfig = "/etc/andiron/andiron.toml";

struct Arguments {
  std::string config = kDefaultConfig;
  bool config_given = false;
  std::string runtime_dir = core::kMachineRuntimeDir;
  std::string state_dir = "/var/lib/andiron";
  std::string log_level = "info";
  bool foreground = false;
  bool check_config = false;
  std::string pinned_mounts;  // "make" or "remove": do that, and no more
};

/// 0 to go on, else the exit status plus one.
int parse(int argc, char** argv, Arguments& arguments) {
  CLI::App app{
      "andirond keeps the weights of AI models resident: it loads them into the page cache, "
      "holds them there, and serves andironctl.",
      "andirond"};
  app.footer(
      "Exit status: 0 stopped by a signal, or the configuration is good; 1 failed; 2 usage or "
      "a bad configuration.\nSIGHUP loads the configuration again; SIGTERM and SIGINT stop.");
  auto* config = app.add_option("--config", arguments.config, "The configuration, in TOML")
                     ->capture_default_str();
  app.add_option("--runtime-dir", arguments.runtime_dir, "Where the control socket lies")
      ->capture_default_str();
  app.add_option("--state-dir", arguments.state_dir, "Where it remembers what is held")
      ->capture_default_str();
  app.add_option("--log-level", arguments.log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  app.add_flag("--foreground", arguments.foreground,
               "Stay in the foreground, which it always does: accepted for habit");
  app.add_flag("--check-config", arguments.check_config,
               "Compile the configuration, print what is wrong with it, and exit");
  app.add_option("--pinned-mounts", arguments.pinned_mounts,
                 "Make the mounts of the pinned-ram tier, or remove them and all that is in them, "
                 "and exit: for a unit, before it confines the agent")
      ->check(CLI::IsMember({"make", "remove"}));
  app.set_version_flag("--version", std::string("andirond ") + core::kVersion);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 1 : 3;
  }
  arguments.config_given = config->count() > 0;
  return 0;
}

log::Level level_of(const std::string& name) {
  if (name == "debug") return log::Level::debug;
  if (name == "warning") return log::Level::warning;
  return name == "error" ? log::Level::error : log::Level::info;
}

/// A thousand model files held are a thousand descriptors, and locked pages count against a limit
/// that a service manager may have set low: both soft limits go to what the hard ones allow.
void raise_limits() {
  for (const auto resource : {RLIMIT_NOFILE, RLIMIT_MEMLOCK}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == limit.rlim_max) continue;
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(resource, &limit) != 0) log::debug("setrlimit: {}", errno);
  }
}

void say(const Error& error) {
  const std::string_view code = error_name(error.errc());
  log::error({.error = code}, "{} ({})", error.message(), code);
}

std::map<std::string, std::string> read_environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return environment;
}

/// The settings, or nothing after having printed every error.
bool compile(const Arguments& arguments, core::AgentOptions& options) {
  std::error_code ignored;
  if (!arguments.config_given && !std::filesystem::exists(arguments.config, ignored)) return true;
  options.config_path = std::filesystem::absolute(arguments.config).string();
  config::Compiled compiled = config::compile_file(options.config_path);
  for (const config::Diagnostic& error : compiled.errors) {
    std::fprintf(stderr, "%s\n", error.to_string().c_str());
  }
  options.settings = std::move(compiled.settings);
  return compiled.ok();
}

/// The exit status.
int mount_pinned(const core::AgentOptions& options, bool make) {
  const auto memory = os::read_memory();
  const std::uint64_t budget = memory ? options.settings.budget.ram.of(memory->limit) : kGiB;
  const Result<void> done =
      make ? core::make_pinned_mounts(options.state_dir, options.runtime_dir, budget)
           : os::remove_pinned_mount(core::pinned_places(options.state_dir, options.runtime_dir));
  if (done) return 0;
  log::error("{} ({})", done.error().message(), error_name(done.error().errc()));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (const int status = parse(argc, argv, arguments); status != 0) return status - 1;
  const char* journal_stream = std::getenv("JOURNAL_STREAM");
  log::start(level_of(arguments.log_level), journal_stream != nullptr ? journal_stream : "");

  core::AgentOptions options;
  const bool good = compile(arguments, options);
  if (arguments.check_config) {
    if (good && options.config_path.empty()) {
      std::printf("%s is not there: defaults apply\n", arguments.config.c_str());
    } else if (good) {
      std::printf("%s is good: %zu models\n", options.config_path.c_str(),
                  options.settings.models.size());
    }
    return good ? 0 : 2;
  }
  if (!good && arguments.pinned_mounts.empty()) return 2;

  raise_limits();
  options.runtime_dir = std::filesystem::absolute(arguments.runtime_dir).string();
  options.state_dir = std::filesystem::absolute(arguments.state_dir).string();
  if (!arguments.pinned_mounts.empty()) {
    return mount_pinned(options, arguments.pinned_mounts == "make");
  }
  auto service = os::ServiceManager::from_environment();
  if (!service) {
    say(service.error());
    return 1;
  }
  options.service = std::move(*service);
  options.environment = read_environment();
  auto agent = core::Agent::create(std::move(options));
  if (!agent) {
    say(agent.error());
    return 1;
  }
  if (!(*agent)->run()) ::_exit(0);
  return 0;
}
