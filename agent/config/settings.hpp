// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/ip_address.hpp"
#include "agent/base/units.hpp"
#include "agent/base/vocabulary.hpp"

namespace andiron::config {

/// "24GiB" or "50%": a percentage stays one until the memory it is a share of is known, and is
/// taken anew when that changes.
struct Amount {
  std::optional<double> percent;  // (0, 100]
  Bytes bytes;                    // where percent is not set
  std::uint64_t of(std::uint64_t whole) const noexcept;
};

enum class LeaseAccess { group, readers };
enum class Switch { automatic, off };
/// Which promise of the kernel keeps what is held as `protected`: os::MemoryProtection.
enum class Protection { off, low, min };

struct AgentSettings {
  /// Absolute, no trailing slash. Where people put models by hand, and where Ollama's service does.
  std::vector<std::string> allow_roots{"/srv/models", "/usr/share/ollama/.ollama/models"};
  LeaseAccess lease_access = LeaseAccess::group;
  bool dry_run = false;
};

struct BudgetSettings {
  Amount ram{50.0, {}};
  std::optional<Amount> ram_headroom;  // nullopt is "auto": the larger of 2 GiB and 10 %
  Protection protection = Protection::low;
};

struct GpuSettings {
  std::string uuid;  // empty where index names it
  std::optional<std::uint32_t> index;
  std::optional<Amount> budget;
  std::optional<Amount> headroom;
};

struct StreamSettings {
  Bytes staging{256 * kMiB};
  Bytes max_bandwidth{0};  // a second, of all lanes together; 0 is no limit
  IoClass io_class = IoClass::best_effort;
};

struct WatchSettings {
  Switch ebpf = Switch::automatic;
  bool prefetch_on_open = true;
  /// dockerd's socket; nullopt is "off". "auto" is where dockerd makes it.
  std::optional<std::string> docker{"/var/run/docker.sock"};
};

struct KeepAlive {
  enum class Kind { automatic, forever, fixed };
  Kind kind = Kind::automatic;
  std::chrono::milliseconds duration{0};  // where fixed
};

struct Preload {
  bool boot = false;
  bool never = false;
  std::vector<std::string> containers;
};

struct ModelSettings {
  std::string name;  // [A-Za-z0-9._:-]+, at most 128 characters; unique
  std::string source;
  Tier tier = Tier::page_cache;
  std::optional<Hold> hold;  // nullopt is "auto"
  std::vector<std::string> also;
  Priority priority = Priority::normal;
  KeepAlive keep_alive;
  Preload preload;
  std::optional<Bytes> bytes;  // stand in for a measurement in `replay`
  std::optional<double> load_s;
};

struct TenantSettings {
  std::string name;
  std::string match_exe;  // globs; at least one is set
  std::string match_cgroup;
  std::optional<Bytes> vram;  // nullopt is "auto": learned
  std::optional<Bytes> ram;
};

struct HttpSettings {
  std::optional<Endpoint> listen;  // nullopt is off
  std::string token_file;          // absolute; empty is none
};

/// A compiled configuration: checked, with units in the types, never written to again.
struct Settings {
  AgentSettings agent;
  BudgetSettings budget;
  std::vector<GpuSettings> gpus;
  StreamSettings stream;
  WatchSettings watch;
  std::vector<ModelSettings> models;
  std::vector<TenantSettings> tenants;
  HttpSettings http;
};

}  // namespace andiron::config
