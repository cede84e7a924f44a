// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "agent/config/field.hpp"
#include "agent/config/settings.hpp"

namespace andiron::config {

inline constexpr std::string_view kModelTitle = "[[model]]";

std::span<const Field<ModelSettings>> model_fields() noexcept;

/// One [[model]]: its fields, and what they must be to each other.
ModelSettings read_model(const RawValue& value, const RawTable& table, Diagnostics& errors);

}  // namespace andiron::config
