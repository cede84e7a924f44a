// SPDX-License-Identifier: MIT
#include "agent/core/http_api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/base/log.hpp"
#include "agent/catalog/resolved_json.hpp"
#include "agent/core/render.hpp"

namespace andiron::core {
namespace {

using namespace std::chrono_literals;
using json = nlohmann::json;

/// A residency walk that takes longer than this is answered with what was known before.
constexpr auto kFreshSample = 500ms;
/// So long a rendered status is good for all who ask.
constexpr auto kStatusAge = 5ms;
/// What a client may wait for a drop, or a resolve, whose disk does not answer.
constexpr auto kSlowAnswer = 30s;

/// A resolve may read all of /proc, and the slow lane has other work: a client that asks, hangs up
/// and asks again must not fill it.
constexpr int kMaxResolves = 16;

/// Answers once: whichever of an end and a deadline comes first. The flag is shared by the two.
using Once = std::shared_ptr<bool>;

Result<std::optional<Hold>> hold_of(const api::JsonBody& body) {
  const auto name = TRY(body.string("hold"));
  if (!name || *name == "auto") return std::optional<Hold>();
  const auto hold = parse_hold(*name);
  if (!hold) {
    return make_error(Errc::bad_request,
                      fmt::format("hold \"{}\": use cached, mapped, protected or locked", *name));
  }
  return hold;
}

/// The tier that is asked for, if one is. Errors: unavailable for one that this version has not,
/// also where the record's own is meant.
Result<std::optional<Tier>> tier_of(const api::JsonBody& body, const ModelRecord* record) {
  const auto name = TRY(body.string("tier"));
  const std::optional<Tier> tier = name ? parse_tier(*name) : std::nullopt;
  if (name && !tier) {
    return make_error(Errc::bad_request,
                      fmt::format("tier \"{}\": use page-cache, pinned-ram or vram", *name));
  }
  if (tier.value_or(record != nullptr ? record->settings.tier : Tier::page_cache) == Tier::vram) {
    return make_error(Errc::unavailable, "tier vram is not in this version");
  }
  return tier;
}

Result<std::vector<std::string>> strings_of(const api::JsonBody& body, const char* key) {
  std::vector<std::string> list;
  const auto found = body.object().find(key);
  if (found == body.object().end() || found->is_null()) return list;
  const auto bad = [&] {
    return make_error(Errc::bad_request, fmt::format("\"{}\" has to be an array of strings", key));
  };
  if (!found->is_array()) return bad();
  for (const json& item : *found) {
    if (!item.is_string()) return bad();
    list.push_back(item.get<std::string>());
    if (list.back().find('\0') != std::string::npos) return bad();
  }
  return list;
}

/// "12" is an event's number, "5m" that long ago, "2026-11-29T10:00:00Z" a time.
Result<std::uint64_t> parse_since(const std::string& text, const EventLog& log, WallTime now) {
  std::uint64_t seq = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seq);
  if (failure == std::errc{} && end == text.data() + text.size()) return seq;
  if (const auto ago = parse_duration(text)) return log.last_before(now - *ago);
  if (const auto time = parse_time(text)) return log.last_before(*time);
  return make_error(Errc::bad_request,
                    fmt::format("since \"{}\": give an event's number, a duration such as 5m, or "
                                "a time such as 2026-11-29T10:00:00Z",
                                text));
}

bool flag(const api::Request& request, const char* name) {
  const auto found = request.query.find(name);
  return found != request.query.end() && found->second != "0" && found->second != "false";
}

}  // namespace

HttpApi::HttpApi(Parts parts) : parts_(std::move(parts)) {
  add_routes();
  add_model_routes();
}

api::Server& HttpApi::say() {
  status_.reset();
  return *server_;
}

void HttpApi::answer(api::ConnectionId connection, unsigned status, const json& body) {
  api::Response response;
  response.status = status;
  response.body = api::dump(body);
  say().respond(connection, std::move(response));
}

void HttpApi::refuse(api::ConnectionId connection, const Error& error) {
  say().respond(connection, api::error_response(error));
}

void HttpApi::on_request(api::Request request) {
  const api::ConnectionId connection = request.connection;
  if (auto unrouted = router_.dispatch(std::move(request))) {
    say().respond(connection, std::move(*unrouted));
  }
}

void HttpApi::add_routes() {
  World& world = parts_.world;
  router_.add("GET", "/healthz", [this](api::Request request, const auto&) {
    answer(request.connection, 200, {{"ok", true}});
  });
  router_.add("GET", "/v1/status",
              [this](api::Request request, const auto&) { show_status(request.connection); });
  router_.add("GET", "/v1/models", [this, &world](api::Request request, const auto&) {
    answer(request.connection, 200, {{"models", render::models(world)}});
  });
  router_.add("GET", "/v1/jobs", [this, &world](api::Request request, const auto&) {
    answer(request.connection, 200, {{"jobs", render::jobs(world, parts_.warmer.jobs())}});
  });
  router_.add("DELETE", "/v1/jobs/{id}", [this, &world](api::Request request, const auto& params) {
    const std::string& text = params.find("id")->second;
    std::uint64_t id = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), id);
    const bool number = failure == std::errc{} && end == text.data() + text.size();
    Job* job = number ? parts_.warmer.jobs().find(id) : nullptr;
    if (job == nullptr) {
      return refuse(request.connection, make_error(Errc::not_found, "job " + text));
    }
    parts_.warmer.cancel(*job);
    answer(request.connection, 200, render::job(*job, world.models.find(job->model)));
  });
  router_.add("GET", "/v1/plan", [this, &world](api::Request request, const auto&) {
    answer(request.connection, 200,
           render::plan(parts_.reconciler.plan(), world.settings.agent.dry_run));
  });
  router_.add("GET", "/v1/doctor", [this, &world](api::Request request, const auto&) {
    answer(request.connection, 200, {{"capabilities", render::capabilities(world)}});
  });
  router_.add("GET", "/v1/events",
              [this](api::Request request, const auto&) { events(std::move(request)); });
  router_.add("POST", "/v1/resolve",
              [this](api::Request request, const auto&) { resolve(std::move(request)); });
  router_.add("POST", "/v1/hooks/container",
              [this](api::Request request, const auto&) { container_hook(request); });
  router_.add("POST", "/v1/reload", [this, &world](api::Request request, const auto&) {
    parts_.reload([this, &world, connection = request.connection](std::vector<std::string> wrong) {
      if (wrong.empty()) {
        return answer(connection, 200, {{"ok", true}, {"models", world.models.size()}});
      }
      answer(connection, 400,
             {{"error",
               {{"code", error_name(Errc::bad_config)},
                {"message", fmt::format("{} (the old configuration stays)", wrong.front())},
                {"details", wrong}}}});
    });
  });
}

void HttpApi::add_model_routes() {
  router_.add("GET", "/v1/models/{name}", [this](api::Request request, const auto& params) {
    const std::string& name = params.find("name")->second;
    ModelRecord* record = model_or_refuse(request.connection, name);
    if (record == nullptr) return;
    // A walk is work, and strangers may ask over TCP: as often as we would walk by ourselves.
    if (!request.peer && parts_.observer.walked_lately(*record)) {
      return show_model(request.connection, name);
    }
    const auto once = std::make_shared<bool>(false);
    const auto show = [this, once, name, connection = request.connection] {
      if (!std::exchange(*once, true)) show_model(connection, name);
    };
    parts_.later(kFreshSample, show);
    parts_.observer.sample(*record, show);
  });
  router_.add("POST", "/v1/models/{name}/warm", [this](api::Request request, const auto& params) {
    warm_model(std::move(request), params.find("name")->second);
  });
  router_.add("POST", "/v1/models/{name}/drop", [this](api::Request request, const auto& params) {
    drop_model(std::move(request), params.find("name")->second);
  });
  router_.add("POST", "/v1/warm",
              [this](api::Request request, const auto&) { warm_source(std::move(request)); });
}

ModelRecord* HttpApi::model_or_refuse(api::ConnectionId connection, const std::string& name) {
  ModelRecord* record = parts_.world.models.find(name);
  if (record == nullptr) refuse(connection, make_error(Errc::model_not_found, name));
  return record;
}

void HttpApi::show_status(api::ConnectionId connection) {
  const SteadyTime now = parts_.world.clock.now();
  if (!status_ || now - status_->rendered > kStatusAge) {
    status_ = {api::dump(render::status(parts_.world, parts_.warmer.jobs(), parts_.started)), now};
  }
  api::Response response;
  response.body = status_->body;
  server_->respond(connection, std::move(response));
}

void HttpApi::show_model(api::ConnectionId connection, const std::string& name) {
  if (const ModelRecord* record = model_or_refuse(connection, name)) {
    answer(connection, 200, render::model_detail(parts_.world, *record));
  }
}

void HttpApi::warm_model(api::Request request, const std::string& name) {
  ModelRecord* record = model_or_refuse(request.connection, name);
  if (record == nullptr) return;
  const auto body = api::JsonBody::parse(request.body);
  if (!body) return refuse(request.connection, body.error());
  if (auto known = body->only({"tier", "hold", "wait", "recharge"}); !known) {
    return refuse(request.connection, known.error());
  }
  start_warm(request, *record, *body);
}

void HttpApi::warm_source(api::Request request) {
  const auto refused = [&](const Error& error) { refuse(request.connection, error); };
  const auto body = api::JsonBody::parse(request.body);
  if (!body) return refused(body.error());
  if (auto known = body->only({"source", "also", "tier", "hold", "wait", "recharge"}); !known) {
    return refused(known.error());
  }
  const auto source = body->required_string("source");
  if (!source) return refused(source.error());
  const auto also = strings_of(*body, "also");
  if (!also) return refused(also.error());
  if (source->empty() || source->size() > 4096) {
    return refused(make_error(Errc::bad_request, "source: 1 to 4096 bytes"));
  }
  // Checked before a record is made, so that a refused call leaves none.
  if (auto hold = hold_of(*body); !hold) return refused(hold.error());
  if (auto tier = tier_of(*body, nullptr); !tier) return refused(tier.error());
  ModelRecord* record = parts_.world.models.find_source(*source);
  if (record == nullptr) {
    parts_.warmer.forget_ad_hoc();  // Those that failed since the last tick are in nobody's way.
    auto added = parts_.world.models.add_ad_hoc(*source, *also);
    if (!added) return refused(added.error());
    record = *added;
  }
  start_warm(request, *record, *body);
}

void HttpApi::start_warm(const api::Request& request, ModelRecord& record,
                         const api::JsonBody& body) {
  const api::ConnectionId connection = request.connection;
  const auto hold = hold_of(body);
  if (!hold) return refuse(connection, hold.error());
  const auto tier = tier_of(body, &record);
  if (!tier) return refuse(connection, tier.error());
  const auto wait = body.boolean("wait");
  if (!wait) return refuse(connection, wait.error());

  if (!parts_.warmer.make_way(record)) return ask_again(request, record);
  const auto recharge = body.boolean("recharge");
  if (!recharge) return refuse(connection, recharge.error());
  if (recharge->value_or(false)) return recharge_and_warm(request, record, body);

  const bool joined = record.job != 0;
  auto job = parts_.warmer.warm(record, *hold, true, *tier);
  if (!job) return refuse(connection, job.error());
  if (request.accepts_ndjson) {
    say().begin_stream(connection);
    (*job)->waiters.push_back({connection, true, joined});
    say().write_line(connection, api::dump(render::progress(parts_.world, **job, &record, joined)));
  } else if (wait->value_or(false)) {
    (*job)->waiters.push_back({connection, false, joined});
  } else {
    answer(connection, 202, render::job(**job, &record));
  }
}

/// A page is charged to whoever touches it first after it has gone, so it goes first.
void HttpApi::recharge_and_warm(const api::Request& request, ModelRecord& record,
                                const api::JsonBody& body) {
  if (parts_.world.settings.agent.dry_run) {
    return refuse(request.connection,
                  make_error(Errc::unavailable, "dry_run is set: nothing is given back"));
  }
  json plain = body.object();
  plain.erase("recharge");
  api::Request again = request;
  again.body = api::dump(plain);
  const auto once = std::make_shared<bool>(false);
  parts_.later(kSlowAnswer, [this, once, name = record.name, connection = request.connection] {
    if (std::exchange(*once, true)) return;
    refuse(connection, make_error(Errc::timeout, name + ": its disk does not answer"));
  });
  parts_.warmer.give_back(record, [this, once, again] {
    if (!std::exchange(*once, true)) on_request(again);
  });
}

/// A job that was cancelled, or whose file changed, is none to join: the request waits for its end
/// and is then looked at as if it came now.
void HttpApi::ask_again(const api::Request& request, const ModelRecord& record) {
  const auto once = std::make_shared<bool>(false);
  parts_.later(kSlowAnswer, [this, once, name = record.name, connection = request.connection] {
    if (std::exchange(*once, true)) return;
    refuse(connection, make_error(Errc::timeout, name + ": a cancelled job does not end"));
  });
  parts_.warmer.after_job(record, [this, once, request] {
    if (std::exchange(*once, true)) return;
    parts_.post([this, request] { on_request(request); });
  });
}

void HttpApi::on_job(Job& job) {
  const ModelRecord* record = parts_.world.models.find(job.model);
  // By value: a write may find its reader gone, which takes it out of the list.
  for (const Waiter& waiter : std::vector<Waiter>(job.waiters)) {
    if (waiter.stream) {
      say().write_line(waiter.connection,
                       api::dump(render::progress(parts_.world, job, record, waiter.joined)));
      if (job.ended()) say().end_stream(waiter.connection);
    } else if (job.ended() && job.error) {
      refuse(waiter.connection, *job.error);
    } else if (job.ended() && record != nullptr) {
      json body = render::model_detail(parts_.world, *record);
      if (job.lock_limit) {
        body["warning"] = {{"code", error_name(Errc::lock_limit)}, {"message", *job.lock_limit}};
      }
      answer(waiter.connection, 200, body);
    } else if (job.ended()) {
      refuse(waiter.connection, make_error(Errc::model_not_found, job.model));
    }
  }
  if (job.ended()) job.waiters.clear();
}

void HttpApi::tick() {
  for (const auto& [id, job] : parts_.warmer.jobs().all()) {
    if (!job->ended() && !job->waiters.empty()) on_job(*job);
  }
}

void HttpApi::drop_model(api::Request request, const std::string& name) {
  ModelRecord* record = model_or_refuse(request.connection, name);
  if (record == nullptr) return;
  const auto body = api::JsonBody::parse(request.body);
  if (!body) return refuse(request.connection, body.error());
  if (auto known = body->only({"tier", "keep_pages"}); !known) {
    return refuse(request.connection, known.error());
  }
  if (auto tier = tier_of(*body, record); !tier) return refuse(request.connection, tier.error());
  const auto keep = body->boolean("keep_pages");
  if (!keep) return refuse(request.connection, keep.error());

  const auto once = std::make_shared<bool>(false);
  const api::ConnectionId connection = request.connection;
  parts_.later(kSlowAnswer, [this, once, connection, name] {
    if (std::exchange(*once, true)) return;
    refuse(connection, make_error(Errc::timeout, name + ": its disk does not answer; it is let go "
                                                        "of as soon as it does"));
  });
  parts_.warmer.drop(*record, !keep->value_or(false), [this, once, connection, name] {
    ModelRecord* same = parts_.world.models.find(name);
    if (same == nullptr) {
      if (!std::exchange(*once, true)) {
        refuse(connection, make_error(Errc::model_not_found, name));
      }
      return;
    }
    parts_.observer.sample(*same, [this, once, connection, name] {
      if (!std::exchange(*once, true)) show_model(connection, name);
    });
  });
}

void HttpApi::resolve(api::Request request) {
  const auto body = api::JsonBody::parse(request.body);
  if (!body) return refuse(request.connection, body.error());
  if (auto known = body->only({"source", "also", "tensors"}); !known) {
    return refuse(request.connection, known.error());
  }
  auto source = body->required_string("source");
  if (!source) return refuse(request.connection, source.error());
  auto also = strings_of(*body, "also");
  if (!also) return refuse(request.connection, also.error());
  const auto tensors = body->boolean("tensors");
  if (!tensors) return refuse(request.connection, tensors.error());

  const api::ConnectionId connection = request.connection;
  if (resolves_ == kMaxResolves) {
    return refuse(connection, make_error(Errc::unavailable, "too many resolves at a time"));
  }
  ++resolves_;
  const auto once = std::make_shared<bool>(false);
  parts_.later(kSlowAnswer, [this, once, connection] {
    if (std::exchange(*once, true)) return;
    refuse(connection, make_error(Errc::timeout, "resolve: the disk does not answer"));
  });
  std::string place = parts_.world.place_of(*source, *also);
  parts_.world.slow.run_at(
      std::move(place),
      [source = std::move(*source), also = std::move(*also), want = tensors->value_or(true),
       roots = parts_.world.settings.agent.allow_roots,
       environment = parts_.world.environment]() -> Result<std::string> {
        catalog::ResolveOptions options;
        options.places = catalog::find_places("", environment);
        options.allow_roots = roots;
        options.want_tensors = want;
        return catalog::to_json(TRY(catalog::resolve(source, also, options)));
      },
      [this, once, connection](Result<std::string> found) {
        --resolves_;
        if (std::exchange(*once, true)) return;
        if (!found) return refuse(connection, found.error());
        api::Response response;
        response.body = std::move(*found);
        say().respond(connection, std::move(response));
      });
}

void HttpApi::container_hook(const api::Request& request) {
  const auto reported = parts_.containers.report(request.body);
  if (!reported) return refuse(request.connection, reported.error());
  const probe::ContainerEvent& event = reported->event;
  const bool started = event.kind == probe::ContainerEvent::Kind::started;
  answer(request.connection, 200,
         {{"container", event.name},
          {"status", started ? "started" : "stopped"},
          {"models", reported->models}});
}

void HttpApi::events(api::Request request) {
  const EventLog& log = parts_.world.events;
  const bool follow = flag(request, "follow") && request.method != "HEAD";
  std::uint64_t since = follow ? log.last() : 0;
  if (const auto given = request.query.find("since");
      given != request.query.end() && !given->second.empty()) {
    const auto parsed = parse_since(given->second, log, parts_.world.clock.wall());
    if (!parsed) return refuse(request.connection, parsed.error());
    since = *parsed;
  }
  std::string backlog;
  for (const probe::Event* event : log.after(since)) {
    backlog += api::dump(render::event(*event)) + "\n";
  }
  say().begin_stream(request.connection, 200, std::move(backlog));
  if (follow) {
    followers_.insert(request.connection);
  } else {
    say().end_stream(request.connection);
  }
}

void HttpApi::on_event(const probe::Event& event) {
  if (followers_.empty()) return;
  const std::string line = api::dump(render::event(event));
  // A write may find its reader gone, which takes it out of the set.
  const std::vector<api::ConnectionId> all(followers_.begin(), followers_.end());
  for (const api::ConnectionId follower : all)
    say().write_line(follower, line);
}

void HttpApi::on_gone(api::ConnectionId connection) {
  followers_.erase(connection);
  for (const auto& [id, job] : parts_.warmer.jobs().all()) {
    std::erase_if(job->waiters,
                  [&](const Waiter& waiter) { return waiter.connection == connection; });
  }
}

void HttpApi::end_streams() {
  const std::vector<api::ConnectionId> all(followers_.begin(), followers_.end());
  followers_.clear();
  for (const api::ConnectionId follower : all)
    say().end_stream(follower);
}

}  // namespace andiron::core
