// SPDX-License-Identifier: MIT
#include "agent/tier/fill_shape.hpp"

#include <algorithm>

#include "agent/base/units.hpp"

namespace andiron::tier {
namespace {

void cut(std::uint64_t begin, std::uint64_t end, std::uint64_t window, bool missing,
         std::vector<FillStep>& steps) {
  while (begin < end) {
    const std::uint64_t length = std::min(end - begin, window - begin % window);
    steps.push_back({{begin, length}, missing});
    begin += length;
  }
}

constexpr std::uint64_t kWindow = 16 * kMiB;
constexpr std::uint64_t kAhead = 64 * kMiB;
constexpr std::uint64_t kSmallestChunk = 128 * kKiB;

}  // namespace

FillShape shape_for(const os::DeviceTraits& device, FillMethod wanted) {
  FillShape shape{wanted, kWindow, 0, 0};
  if (wanted == FillMethod::automatic) shape.method = FillMethod::populate;
  shape.chunk = std::max({device.read_ahead, device.max_request, kSmallestChunk});
  shape.ahead = kAhead;
  return shape;
}

std::vector<FillStep> plan_steps(const std::vector<ByteRange>& missing, std::uint64_t size,
                                 std::uint64_t window, bool everything) {
  std::vector<FillStep> steps;
  std::uint64_t at = 0;
  for (const ByteRange& range : missing) {
    if (everything) cut(at, range.offset, window, false, steps);
    cut(range.offset, range.end(), window, true, steps);
    at = range.end();
  }
  if (everything) cut(at, size, window, false, steps);
  return steps;
}

}  // namespace andiron::tier
