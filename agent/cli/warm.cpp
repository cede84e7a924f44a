// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "agent/base/units.hpp"
#include "agent/base/vocabulary.hpp"
#include "agent/cli/agent_call.hpp"
#include "agent/cli/bodies.hpp"
#include "agent/cli/progress.hpp"
#include "agent/cli/terminal_text.hpp"
#include "agent/cli/verbs.hpp"

namespace andiron::cli {
namespace {

constexpr std::array<std::string_view, 3> kPrefixes{"ollama:", "hf:", "guest:"};
constexpr std::array<std::string_view, 3> kEndings{".gguf", ".safetensors",
                                                   ".safetensors.index.json"};

bool has_prefix(std::string_view text) {
  for (const std::string_view prefix : kPrefixes) {
    if (text.starts_with(prefix)) return true;
  }
  return false;
}

Request warm_call(const WarmOptions& options, const std::string& body, bool by_name) {
  const std::string target = by_name ? model_path(options.what) + "/warm" : "/v1/warm";
  return {"POST", target, body};
}

std::optional<SteadyTime> deadline_of(const WarmOptions& options, SteadyTime begin) {
  if (!options.timeout) return std::nullopt;
  return begin + *options.timeout;
}

/// One warm that is waited for: follows its lines, draws, and decides how it ended.
class Warming {
 public:
  /// Time counts from `begin` on.
  Warming(Context& context, const WarmOptions& options, SteadyTime begin)
      : context_(context),
        options_(options),
        label_(escape_text(options.what)),
        begin_(begin),
        bar_(context.console, context.clock, !context.options.json) {}

  /// nullopt: the agent knows no model of that name (and nothing was told yet).
  std::optional<ExitStatus> follow(const std::string& body, bool by_name, bool may_try_source) {
    const auto deadline = deadline_of(options_, begin_);
    Result<Connection> connection = open_agent(context_, deadline);
    if (!connection) return report_no_agent(context_, connection.error());
    StreamOptions stream;
    stream.on_line = [this](std::string_view line) { return take(line); };
    stream.on_interrupt = [this] {
      interrupted_ = true;
      return last_.job.has_value();
    };
    stream.deadline = deadline;
    Result<StreamOutcome> outcome = connection->stream(warm_call(options_, body, by_name), stream);
    bar_.clear();
    if (!outcome) return lost(outcome.error());
    if (outcome->end == StreamEnd::refused) {
      const ErrorBody error = parse_error(outcome->status, outcome->body);
      if (may_try_source && error.code == error_name(Errc::model_not_found)) return std::nullopt;
      return report_refusal(context_, outcome->status, outcome->body);
    }
    return conclude(outcome->end);
  }
  /// By a signal.
  bool interrupted() const noexcept { return interrupted_; }

 private:
  bool take(std::string_view line) {
    if (context_.options.json) context_.console.print(line);
    Result<WarmLine> parsed = parse_warm_line(line);
    if (!parsed) {
      garbage_ = true;
      return false;
    }
    if (!parsed->job) parsed->job = last_.job;
    if (!parsed->done_bytes) parsed->done_bytes = last_.done_bytes;
    if (!parsed->total_bytes) parsed->total_bytes = last_.total_bytes;
    joined_ = joined_ || parsed->joined;
    last_ = std::move(*parsed);
    bar_.update(label_, last_.done_bytes.value_or(0), last_.total_bytes.value_or(0));
    return !last_.ended() && !interrupted_;
  }

  ExitStatus conclude(StreamEnd end) {
    if (last_.ended()) return ended();
    if (garbage_) {
      return report(context_, make_error(Errc::bad_format, "the agent's answer is no JSON object"));
    }
    if (end == StreamEnd::timed_out) {
      report(context_, make_error(Errc::timeout, fmt::format("{}: not warm after {}", options_.what,
                                                             format_duration(*options_.timeout))));
      if (last_.job) context_.console.note(fmt::format("job {} goes on", *last_.job));
      return ExitStatus::failed;
    }
    if (end == StreamEnd::interrupted || interrupted_) {
      return leave(make_error(Errc::cancelled, options_.what));
    }
    return report(context_, make_error(Errc::unavailable, "the agent ended its answer too early"));
  }

  ExitStatus lost(const Error& error) {
    // A line that came first counts: the agent may close right behind it.
    return last_.ended() ? ended() : report(context_, error);
  }

  ExitStatus ended() {
    if (last_.state != "done") return failed();
    if (!context_.options.json && !options_.quiet && last_.model) {
      const auto took = context_.clock.now() - begin_;
      context_.console.print(render_warmed(*last_.model, took, last_.done_bytes.value_or(0)));
    }
    if (!last_.warning) return ExitStatus::done;
    if (!context_.options.json) {
      context_.console.warning(last_.warning->message, last_.warning->code);
    }
    const bool lock_limit = last_.warning->code == error_name(Errc::lock_limit);
    return lock_limit && options_.strict ? ExitStatus::failed : ExitStatus::done;
  }

  ExitStatus failed() {
    if (context_.options.json) return ExitStatus::failed;
    if (last_.error) {
      const std::string& why = last_.error->message;
      const bool named = why.starts_with(label_ + ":");  // a file that was asked for by its path
      context_.console.error(named ? why : fmt::format("{}: {}", label_, why), last_.error->code);
    } else {
      context_.console.error(fmt::format("{}: {}", label_, last_.state), last_.state);
    }
    return ExitStatus::failed;
  }

  /// Gives up waiting, and takes the job along where this client started it.
  ExitStatus leave(const Error& why) {
    report(context_, why);
    if (!last_.job || options_.boot) return ExitStatus::failed;  // boot: the agent wants it anyway
    if (joined_) {
      context_.console.note(fmt::format("job {} goes on for who started it", *last_.job));
      return ExitStatus::failed;
    }
    Result<Connection> connection = Connection::open(context_.options.socket);
    if (!connection) return ExitStatus::failed;
    const Result<Response> response =
        connection->call({"DELETE", fmt::format("/v1/jobs/{}", *last_.job), {}});
    // Gone by itself meanwhile is as good.
    const bool cancelled = response && (response->status / 100 == 2 || response->status == 404);
    if (!cancelled) {
      context_.console.note(fmt::format("job {} could not be cancelled and goes on", *last_.job));
    }
    return ExitStatus::failed;
  }

  Context& context_;
  const WarmOptions& options_;
  std::string label_;
  SteadyTime begin_;
  ProgressBar bar_;
  WarmLine last_;
  bool joined_ = false;
  bool interrupted_ = false;
  bool garbage_ = false;
};

/// Starts it and comes back. nullopt as Warming::follow.
std::optional<ExitStatus> start_only(Context& context, const WarmOptions& options,
                                     const std::string& body, bool by_name, bool may_try_source) {
  Result<Connection> connection = Connection::open(context.options.socket);
  if (!connection) return report_no_agent(context, connection.error());
  const Result<Response> response = connection->call(warm_call(options, body, by_name));
  if (!response) return report(context, response.error());
  if (response->status / 100 != 2) {
    const ErrorBody error = parse_error(response->status, response->body);
    if (may_try_source && error.code == error_name(Errc::model_not_found)) return std::nullopt;
    return report_refusal(context, response->status, response->body);
  }
  if (context.options.json) {
    print_body(context, response->body);
    return ExitStatus::done;
  }
  const Result<WarmLine> line = parse_warm_line(response->body);
  if (!line) return report(context, line.error());
  const std::string label = escape_text(options.what);
  context.console.print(
      line->job ? fmt::format("{}: job {} is at work: andironctl jobs\n", label, *line->job)
                : fmt::format("{}: nothing to do\n", label));
  return ExitStatus::done;
}

/// What the agent loads at boot, the most important first: where memory is short, they get it.
Result<std::vector<ModelBody>> boot_models(std::string_view body) {
  std::vector<ModelBody> models = TRY(parse_models(body));
  std::erase_if(models, [](const ModelBody& model) { return !model.preload_boot; });
  const auto rank = [](const ModelBody& model) { return parse_priority(model.priority); };
  std::stable_sort(models.begin(), models.end(),
                   [&](const auto& a, const auto& b) { return rank(a) > rank(b); });
  return models;
}

/// Waits for all of them, one after the other; they load at the same time. One that fails does not
/// keep the others from being waited for.
ExitStatus run_warm_boot(Context& context, const WarmOptions& options) {
  const SteadyTime begin = context.clock.now();
  const auto deadline = deadline_of(options, begin);
  Result<Connection> connection = open_agent(context, deadline);
  if (!connection) return report_no_agent(context, connection.error());
  const Result<Response> response = connection->call({"GET", "/v1/models", {}});
  if (!response) return report(context, response.error());
  if (response->status / 100 != 2) {
    return report_refusal(context, response->status, response->body);
  }
  const Result<std::vector<ModelBody>> models = boot_models(response->body);
  if (!models) return report(context, models.error());
  if (models->empty() && !context.options.json) {
    context.console.print("no model has preload = \"boot\"\n");
  }
  ExitStatus whole = ExitStatus::done;
  for (const ModelBody& model : *models) {
    WarmOptions one = options;
    one.what = model.name;
    const Result<std::string> body = warm_request({{}, {}, {}, true, false});
    if (!body) return report(context, body.error());
    Warming warming(context, one, begin);
    const auto status = warming.follow(*body, true, false);
    if (status == ExitStatus::done) continue;
    whole = status.value_or(ExitStatus::failed);
    const bool late = deadline && context.clock.now() >= *deadline;
    if (late || warming.interrupted()) break;  // said once is enough
  }
  return whole;
}

}  // namespace

bool looks_like_source(const std::string& text) {
  if (has_prefix(text) || text.find('/') != std::string::npos) return true;
  for (const std::string_view ending : kEndings) {
    if (std::string_view(text).ends_with(ending)) return true;
  }
  struct stat status {};
  return ::stat(text.c_str(), &status) == 0;
}

std::string absolute_source(const std::string& text) {
  if (text.empty() || text.front() == '/' || has_prefix(text)) return text;
  std::error_code failure;
  const std::filesystem::path here = std::filesystem::current_path(failure);
  return failure ? text : (here / text).string();
}

ExitStatus run_warm(Context& context, const WarmOptions& options) {
  if (options.boot) return run_warm_boot(context, options);
  const SteadyTime begin = context.clock.now();
  WarmRequest request{{}, options.tier, options.hold, options.wait, options.recharge};
  const auto attempt = [&](bool by_name, bool may_try_source) -> std::optional<ExitStatus> {
    if (!by_name) request.source = absolute_source(options.what);
    const Result<std::string> body = warm_request(request);
    if (!body) return report(context, body.error());
    if (!options.wait) return start_only(context, options, *body, by_name, may_try_source);
    return Warming(context, options, begin).follow(*body, by_name, may_try_source);
  };
  const std::optional<ExitStatus> by_name = attempt(true, looks_like_source(options.what));
  return by_name ? *by_name : attempt(false, false).value_or(ExitStatus::failed);
}

}  // namespace andiron::cli
