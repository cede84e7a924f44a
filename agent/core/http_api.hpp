// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/api/json_body.hpp"
#include "agent/api/router.hpp"
#include "agent/api/server.hpp"
#include "agent/core/containers.hpp"
#include "agent/core/observer.hpp"
#include "agent/core/reconciler.hpp"
#include "agent/core/warmer.hpp"
#include "agent/core/world.hpp"

namespace andiron::core {

/// The calls of the control socket. Turns requests into calls of the core's parts, and their state
/// into JSON. Thread: the control loop's. Never blocks: what takes long is answered later.
class HttpApi {
 public:
  struct Parts {
    World& world;
    Warmer& warmer;
    Observer& observer;
    Containers& containers;
    Reconciler& reconciler;
    /// Compiles the configuration again; calls back with what was wrong, or with nothing.
    std::function<void(std::function<void(std::vector<std::string>)>)> reload;
    /// After so long, once, on the loop.
    std::function<void(std::chrono::milliseconds, std::function<void()>)> later;
    /// On the loop, after what is ready to run now.
    std::function<void(std::function<void()>)> post;
    SteadyTime started;
  };
  explicit HttpApi(Parts parts);

  void serve_on(api::Server& server) { server_ = &server; }
  void on_request(api::Request request);
  void on_gone(api::ConnectionId connection);

  /// Of Warmer: a job moved on.
  void on_job(Job& job);
  /// Of EventLog: an event was appended.
  void on_event(const probe::Event& event);
  /// Now and then while jobs run: progress lines to those who wait.
  void tick();
  /// Ends every stream: the agent stops.
  void end_streams();

 private:
  void add_routes();
  void add_model_routes();
  void warm_model(api::Request request, const std::string& name);
  void warm_source(api::Request request);
  void start_warm(const api::Request& request, ModelRecord& record, const api::JsonBody& body);
  void recharge_and_warm(const api::Request& request, ModelRecord& record,
                         const api::JsonBody& body);
  void ask_again(const api::Request& request, const ModelRecord& record);
  void drop_model(api::Request request, const std::string& name);
  void show_status(api::ConnectionId connection);
  void show_model(api::ConnectionId connection, const std::string& name);
  void resolve(api::Request request);
  void events(api::Request request);
  void container_hook(const api::Request& request);
  /// The server, to tell a client something else than the status.
  api::Server& say();
  void answer(api::ConnectionId connection, unsigned status, const nlohmann::json& body);
  void refuse(api::ConnectionId connection, const Error& error);
  ModelRecord* model_or_refuse(api::ConnectionId connection, const std::string& name);

  Parts parts_;
  api::Server* server_ = nullptr;
  api::Router router_;
  std::set<api::ConnectionId> followers_;  // of events
  int resolves_ = 0;                       // on the slow lane
  /// For those who ask at the same time: 64 dashboards cost one rendering. say() ends it, so that
  /// nobody is shown a state from before what he was last told.
  struct Rendered {
    api::Body body;
    SteadyTime rendered;
  };
  std::optional<Rendered> status_;
};

}  // namespace andiron::core
