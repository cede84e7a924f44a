// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <scsi/sg.h>
#include <sys/ioctl.h>

#include <array>

#include "agent/base/unique_fd.hpp"
#include "agent/os/device.hpp"
#include "agent/os/text_file.hpp"

namespace andiron::os {
namespace {

/// A disk answers CHECK POWER MODE from its electronics, without its platters; a bridge that takes
/// longer does not know the command.
constexpr unsigned kAnswerMs = 2000;

/// ATA PASS-THROUGH (16) (SAT-4, 12.2.3) of CHECK POWER MODE (ACS-4, 7.4).
constexpr std::uint8_t kAtaPassThrough16 = 0x85;
constexpr std::uint8_t kNonData = 3U << 1;
constexpr std::uint8_t kCheckCondition = 0x20;  // give the registers back as sense data
constexpr std::uint8_t kCheckPowerMode = 0xE5;

std::optional<std::uint8_t> ask_power_mode(const std::string& path) {
  // Not to wake it: O_NONBLOCK keeps the driver from looking for a medium.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return std::nullopt;
  std::array<std::uint8_t, 16> command{};
  command[0] = kAtaPassThrough16;
  command[1] = kNonData;
  command[2] = kCheckCondition;
  command[14] = kCheckPowerMode;
  std::array<std::uint8_t, 32> sense{};
  sg_io_hdr_t request{};
  request.interface_id = 'S';
  request.dxfer_direction = SG_DXFER_NONE;
  request.cmd_len = command.size();
  request.cmdp = command.data();
  request.mx_sb_len = sense.size();
  request.sbp = sense.data();
  request.timeout = kAnswerMs;
  if (::ioctl(fd.get(), SG_IO, &request) != 0) return std::nullopt;
  return power_mode_of_sense(sense.data(), request.sb_len_wr);
}

}  // namespace

std::optional<std::uint8_t> power_mode_of_sense(const std::uint8_t* sense, std::size_t size) {
  // Descriptor format, then the ATA status return descriptor of 12 bytes.
  if (size < 22 || (sense[0] & 0x7FU) != 0x72 || sense[8] != 0x09 || sense[9] != 0x0C) {
    return std::nullopt;
  }
  return sense[8 + 5];
}

bool in_standby(const DeviceTraits& device, const std::string& sys_root) {
  if (device.name.empty()) return false;
  // First this: opening the device of a suspended disk would wake it.
  const auto status =
      read_word(sys_root + "/block/" + device.name + "/device/power/runtime_status");
  if (status == "suspended") return true;
  if (!device.rotational || !device.name.starts_with("sd") || sys_root != "/sys") return false;
  const std::optional<std::uint8_t> mode = ask_power_mode("/dev/" + device.name);
  // 00h standby_z, 01h standby_y; idle and active are FFh, 80h and above.
  return mode && *mode <= 0x01;
}

}  // namespace andiron::os
