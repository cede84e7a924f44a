// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "agent/base/range.hpp"
#include "agent/os/device.hpp"
#include "agent/tier/page_cache.hpp"

namespace andiron::tier {

/// How one device is read to fill its page cache. All numbers are bytes.
struct FillShape {
  FillMethod method = FillMethod::populate;  // never `automatic`
  std::uint64_t window = 0;                  // brought in between two looks at the control
  std::uint64_t chunk = 0;                   // the most that one WILLNEED really reads
  std::uint64_t ahead = 0;                   // how far WILLNEED runs before what waits for pages
};

/// The shape for a device; `wanted` other than `automatic` decides the method. Pure.
FillShape shape_for(const os::DeviceTraits& device, FillMethod wanted);

/// One call's worth of a file.
struct FillStep {
  ByteRange range;
  bool missing = true;  // false: resident already, only to be mapped
};

/// Cuts a file of `size` bytes into steps of at most `window` bytes, in order, none across a
/// multiple of it (folios are aligned in the file). With `everything`, what lies between the
/// missing ranges is in them as well. `missing` is ordered, disjoint and inside [0, size). Pure.
std::vector<FillStep> plan_steps(const std::vector<ByteRange>& missing, std::uint64_t size,
                                 std::uint64_t window, bool everything);

}  // namespace andiron::tier
