// SPDX-License-Identifier: MIT
#include "agent/tier/fill_shape.hpp"

#include <algorithm>
#include <limits>

#include "agent/base/units.hpp"

namespace andiron::tier {
namespace {

/// Twice what the kernel reads at once of huge folios. A look at the control between two costs
/// nothing.
constexpr std::uint64_t kWindow = 8 * kMiB;
/// WILLNEED in flight. 64 MiB was as good as 128 and better than 16 wherever it was tried.
constexpr std::uint64_t kAhead = 64 * kMiB;
/// The kernel's own default read-ahead, where the device's is not known.
constexpr std::uint64_t kSmallestChunk = 128 * kKiB;
/// From here on the kernel's read-ahead alone keeps a device busy (notes in fill_shape.hpp).
constexpr std::uint64_t kLongReadAhead = kMiB;
/// Windows in flight. Against four of 16 MiB, eight of 8 MiB read 1.02 times as fast on a virtual
/// disk of 1.1 GB/s and 1.3 times on a loop device of 1.5 GB/s; sixteen of 4 MiB gained 4 % more,
/// which is within the noise, for twice the threads.
constexpr unsigned kThreads = 8;

/// Whether seeks cost. virtio disks (vda) call themselves rotational since the host tells them
/// nothing: no evidence of a spinning disk, so it is not believed.
bool seeks_cost(const os::DeviceTraits& device) {
  return device.rotational && !device.name.starts_with("vd");
}

void cut(ByteRange range, bool missing, const FillShape& shape, std::vector<FillStep>& steps) {
  const bool ask = missing && range.length < shape.ask_below;
  while (range.length > 0) {
    const std::uint64_t length = std::min(range.length, shape.window - range.offset % shape.window);
    steps.push_back({{range.offset, length}, missing, ask});
    range = {range.offset + length, range.length - length};
  }
}

}  // namespace

FillShape shape_for(const os::DeviceTraits& device, FillMethod wanted) {
  FillShape shape;
  shape.window = kWindow;
  shape.chunk = std::max({device.read_ahead, device.max_request, kSmallestChunk});
  shape.ahead = kAhead;
  shape.threads = seeks_cost(device) ? 1 : kThreads;
  shape.prove_huge = wanted == FillMethod::automatic && device.read_ahead < kLongReadAhead;
  return with_method(shape, wanted == FillMethod::automatic ? FillMethod::populate : wanted);
}

FillShape with_method(FillShape shape, FillMethod method) {
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  shape.method = method;
  shape.ask_below = 0;
  // A hole that cannot have a huge folio gains by being asked for early instead.
  if (method == FillMethod::populate) shape.ask_below = kHugeFolio;
  if (method == FillMethod::readahead_populate) shape.ask_below = kAll;
  return shape;
}

std::vector<ByteRange> merge_close(const std::vector<ByteRange>& ranges, std::uint64_t gap) {
  std::vector<ByteRange> merged;
  for (const ByteRange& range : ranges) {
    if (!merged.empty() && range.offset - merged.back().end() < gap) {
      merged.back().length = range.end() - merged.back().offset;
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::vector<FillStep> plan_steps(const std::vector<ByteRange>& missing, std::uint64_t size,
                                 const FillShape& shape, bool everything) {
  std::vector<FillStep> steps;
  std::uint64_t at = 0;
  for (const ByteRange& range : missing) {
    if (everything) cut({at, range.offset - at}, false, shape, steps);
    cut(range, true, shape, steps);
    at = range.end();
  }
  if (everything) cut({at, size - at}, false, shape, steps);
  return steps;
}

}  // namespace andiron::tier
