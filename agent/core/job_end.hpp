// SPDX-License-Identifier: MIT
#pragma once

#include "agent/core/jobs.hpp"
#include "agent/core/model_table.hpp"
#include "agent/core/world.hpp"

namespace andiron::core {

/// What a job that ran to its end, or failed, leaves behind: in its model's record, among the
/// events and in the log. Thread: the control loop's. Never blocks.
void note_end(World& world, ModelRecord& record, const Job& job);

}  // namespace andiron::core
