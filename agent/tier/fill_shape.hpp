// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "agent/base/range.hpp"
#include "agent/os/device.hpp"
#include "agent/tier/page_cache.hpp"

namespace andiron::tier {

/// A huge folio of the page cache, on every architecture that we know of with 4 KiB pages.
inline constexpr std::uint64_t kHugeFolio = std::uint64_t{2} << 20;

/// How one device is read to fill its page cache. Sizes are bytes.
struct FillShape {
  FillMethod method = FillMethod::populate;  // never `automatic`
  std::uint64_t window = 0;                  // brought in between two looks at the control
  std::uint64_t chunk = 0;                   // the most that one WILLNEED really reads
  std::uint64_t ahead = 0;      // how far WILLNEED runs before what waits for the pages
  std::uint64_t ask_below = 0;  // missing steps shorter than this are asked for by WILLNEED
  unsigned threads = 1;         // that populate windows side by side
  bool prove_huge = false;      // populate only where huge folios make up for a short read-ahead
};

/// The shape for a device; `wanted` other than `automatic` decides the method. Pure.
FillShape shape_for(const os::DeviceTraits& device, FillMethod wanted);
/// The same with another method.
FillShape with_method(FillShape shape, FillMethod method);

/// Ordered ranges with those made one that have less than `gap` bytes between them. Pure.
std::vector<ByteRange> merge_close(const std::vector<ByteRange>& ranges, std::uint64_t gap);

/// One call's worth of a file.
struct FillStep {
  ByteRange range;
  bool missing = true;     // false: resident already, only to be mapped
  bool ask_ahead = false;  // by WILLNEED
};

/// Cuts a file of `size` bytes into steps of at most `shape.window` bytes, in order, none across a
/// multiple of it (folios are aligned in the file). With `everything`, what lies between the
/// missing ranges is in them as well. `missing` is ordered, disjoint and inside [0, size). Pure.
std::vector<FillStep> plan_steps(const std::vector<ByteRange>& missing, std::uint64_t size,
                                 const FillShape& shape, bool everything);

}  // namespace andiron::tier
