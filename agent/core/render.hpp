// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "agent/core/jobs.hpp"
#include "agent/core/world.hpp"
#include "agent/policy/plan.hpp"

/// The API's JSON bodies, from the core's state. Bytes are integers, times RFC 3339, durations
/// seconds. Pure.
namespace andiron::core::render {

nlohmann::json model(const World& world, const ModelRecord& record);
/// model(), and its files, its last load, its last error and the sentences of explain().
nlohmann::json model_detail(const World& world, const ModelRecord& record);
/// Why a model is where it is, in sentences for people.
std::vector<std::string> explain(const World& world, const ModelRecord& record);

nlohmann::json models(const World& world);
nlohmann::json status(const World& world, const JobTable& jobs, SteadyTime started);
nlohmann::json capabilities(const World& world);
nlohmann::json job(const Job& job, const ModelRecord* record);
nlohmann::json jobs(World& world, const JobTable& jobs);
/// A line of a warm's progress stream; the last one carries the model.
nlohmann::json progress(const World& world, const Job& job, const ModelRecord* record, bool joined);
nlohmann::json event(const probe::Event& event);
nlohmann::json plan(const policy::Plan& plan, bool dry_run);
nlohmann::json error(const Error& error);

}  // namespace andiron::core::render
