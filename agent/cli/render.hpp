// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/cli/bodies.hpp"

/// Answers of the agent as text for people, each with its last newline. Pure.
namespace andiron::cli {

struct Style {
  bool colour = false;
  WallTime now;  // what "today" is
};

std::string render_status(const StatusBody& status, const Style& style);
std::string render_models(const std::vector<ModelBody>& models, const Style& style);
std::string render_model(const ModelBody& model, const Style& style);
std::string render_explain(const ModelBody& model);
std::string render_plan(const PlanBody& plan);
std::string render_jobs(const std::vector<JobBody>& jobs, const Style& style);
std::string render_doctor(const std::vector<CapabilityBody>& capabilities, const Style& style);
std::string render_resolved(const ResolvedBody& resolved, bool tensors);
std::string render_dropped(const ModelBody& model);
/// "10:00:03 model.evicted assistant: 1.0 MiB by ffmpeg (jellyfin), direct-reclaim".
std::string render_event(const EventBody& event, const Style& style);
/// "assistant: warm, 1.9 GiB of 1.9 GiB resident, locked, in 1.2 s (1.6 GB/s)". `read` is the bytes
/// that were brought in.
std::string render_warmed(const ModelBody& model, std::chrono::nanoseconds took,
                          std::uint64_t read);

}  // namespace andiron::cli
