// SPDX-License-Identifier: MIT
#include "agent/config/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "agent/config/field.hpp"
#include "agent/config/listen_address.hpp"
#include "agent/config/model_fields.hpp"
#include "agent/config/read_value.hpp"

namespace andiron::config {
namespace {

// More than any machine has, and a bound on what a text can ask for.
constexpr std::size_t kMaxGpus = 64;
constexpr std::size_t kMaxTenants = 1000;

// ---- [agent], [budget], [stream], [watch], [http]

void read_allow_roots(const RawEntry& entry, AgentSettings& agent, Diagnostics& errors) {
  const auto texts = read_text_list(entry, errors);
  if (!texts) return;
  agent.allow_roots.clear();
  for (const auto& [at, text] : *texts) {
    const auto path = clean_absolute_path(text);
    if (path) {
      agent.allow_roots.push_back(*path);
    } else {
      errors.add(at, fmt::format("\"allow_roots\" must have absolute paths without \"..\", not {}",
                                 in_quotes(text)));
    }
  }
}

constexpr std::array<Field<AgentSettings>, 3> kAgent{{
    {"allow_roots", read_allow_roots},
    {"lease_access",
     [](const RawEntry& e, AgentSettings& s, Diagnostics& d) {
       read_choice<LeaseAccess>(e,
                                {{"group", LeaseAccess::group}, {"readers", LeaseAccess::readers}},
                                s.lease_access, d);
     }},
    {"dry_run",
     [](const RawEntry& e, AgentSettings& s, Diagnostics& d) { read_bool(e, s.dry_run, d); }},
}};

constexpr std::array<Field<BudgetSettings>, 3> kBudget{{
    {"ram", [](const RawEntry& e, BudgetSettings& s,
               Diagnostics& d) { s.ram = read_amount(e, d).value_or(s.ram); }},
    {"ram_headroom", [](const RawEntry& e, BudgetSettings& s,
                        Diagnostics& d) { read_auto_or_amount(e, s.ram_headroom, d); }},
    {"protection",
     [](const RawEntry& e, BudgetSettings& s, Diagnostics& d) {
       read_choice<Protection>(
           e, {{"low", Protection::low}, {"min", Protection::min}, {"off", Protection::off}},
           s.protection, d);
     }},
}};

void read_staging(const RawEntry& entry, StreamSettings& stream, Diagnostics& errors) {
  const auto bytes = read_bytes(entry, errors);
  if (!bytes) return;
  // Below, no device reaches its rate; above, it would be a budget of its own.
  if (bytes->count < kMiB || bytes->count > 64 * kGiB) {
    return add_error(entry, "must be from 1MiB to 64GiB", errors);
  }
  stream.staging = *bytes;
}

void read_max_bandwidth(const RawEntry& entry, StreamSettings& stream, Diagnostics& errors) {
  // "200MB/s" says what is meant anyway.
  RawEntry plain = entry;
  if (auto* text = std::get_if<std::string>(&plain.value.data); text && text->ends_with("/s")) {
    text->resize(text->size() - 2);
  }
  const auto bytes = read_bytes(plain, errors);
  if (!bytes) return;
  // Slower, a model takes days: somebody forgot the unit.
  if (bytes->count != 0 && bytes->count < 64 * kKiB) {
    return add_error(
        entry,
        "must be 0 (no limit), or at least 64KiB a second; is a unit missing, as in \"200MB\"?",
        errors);
  }
  stream.max_bandwidth = *bytes;
}

constexpr std::array<Field<StreamSettings>, 3> kStream{{
    {"staging", read_staging},
    {"max_bandwidth", read_max_bandwidth},
    {"io_class",
     [](const RawEntry& e, StreamSettings& s, Diagnostics& d) {
       read_choice<IoClass>(e,
                            {{to_string(IoClass::idle), IoClass::idle},
                             {to_string(IoClass::best_effort), IoClass::best_effort}},
                            s.io_class, d);
     }},
}};

void read_docker(const RawEntry& entry, WatchSettings& watch, Diagnostics& errors) {
  const auto text = read_text(entry, errors);
  if (!text || *text == "auto") return;
  if (*text == "off") {
    watch.docker.reset();
    return;
  }
  // What sockaddr_un holds.
  constexpr std::size_t kMaxSocketName = 107;
  if (!text->starts_with("/") || text->size() > kMaxSocketName) {
    return add_error(
        entry,
        fmt::format("must be \"auto\", \"off\" or the absolute path of a socket, of "
                    "at most {} bytes, not {}{}",
                    kMaxSocketName, in_quotes(*text), did_you_mean(*text, {"auto", "off"})),
        errors);
  }
  watch.docker = *text;
}

constexpr std::array<Field<WatchSettings>, 3> kWatch{{
    {"ebpf",
     [](const RawEntry& e, WatchSettings& s, Diagnostics& d) {
       read_choice<Switch>(e, {{"auto", Switch::automatic}, {"off", Switch::off}}, s.ebpf, d);
     }},
    {"prefetch_on_open", [](const RawEntry& e, WatchSettings& s,
                            Diagnostics& d) { read_bool(e, s.prefetch_on_open, d); }},
    {"docker", read_docker},
}};

void read_listen(const RawEntry& entry, HttpSettings& http, Diagnostics& errors) {
  const auto text = read_text(entry, errors);
  if (!text) return;
  if (!text->empty()) {
    const auto address = parse_listen_address(*text);
    if (!address) {
      return add_error(entry, fmt::format("{}, not {}", address.error().context, in_quotes(*text)),
                       errors);
    }
    http.listen = *address;
  }
}

void read_token_file(const RawEntry& entry, HttpSettings& http, Diagnostics& errors) {
  const auto text = read_text(entry, errors);
  if (!text) return;
  if (!text->empty() && text->front() != '/') {
    return add_error(entry, "must be an absolute path, not " + in_quotes(*text), errors);
  }
  http.token_file = *text;
}

constexpr std::array<Field<HttpSettings>, 2> kHttp{{
    {"listen", read_listen},
    {"token_file", read_token_file},
}};

void check_http(const RawTable& table, const HttpSettings& http, Diagnostics& errors) {
  if (!http.listen || http.listen->address.is_loopback()) return;
  // A token file that is wrong was meant to be there: its own error is enough.
  const RawEntry* token = find_entry(table, "token_file");
  const auto* token_text = token ? std::get_if<std::string>(&token->value.data) : nullptr;
  const bool meant = token != nullptr && (token_text == nullptr || !token_text->empty());
  if (!meant) {
    add_error(*find_entry(table, "listen"),
              "beyond loopback needs a \"token_file\", or everybody there could read all of it",
              errors);
  }
}

// ---- [[gpu]]

void read_uuid(const RawEntry& entry, GpuSettings& gpu, Diagnostics& errors) {
  const auto text = read_text(entry, errors);
  if (!text) return;
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-';
  };
  const bool prefixed = text->starts_with("GPU-") || text->starts_with("MIG-");
  if (!prefixed || text->size() <= 4 || text->size() > 80 ||
      !std::all_of(text->begin(), text->end(), fits)) {
    return add_error(
        entry, "must be \"GPU-...\" as nvidia-smi -L prints it, not " + in_quotes(*text), errors);
  }
  gpu.uuid = *text;
}

void read_index(const RawEntry& entry, GpuSettings& gpu, Diagnostics& errors) {
  const auto* index = std::get_if<std::int64_t>(&entry.value.data);
  if (index == nullptr) return add_wrong_type(entry, "a whole number", errors);
  if (*index < 0 || *index >= static_cast<std::int64_t>(kMaxGpus)) {
    return add_error(entry, fmt::format("must be from 0 to {}", kMaxGpus - 1), errors);
  }
  gpu.index = static_cast<std::uint32_t>(*index);
}

constexpr std::array<Field<GpuSettings>, 4> kGpu{{
    {"uuid", read_uuid},
    {"index", read_index},
    {"budget", [](const RawEntry& e, GpuSettings& s,
                  Diagnostics& d) { read_auto_or_amount(e, s.budget, d); }},
    {"headroom", [](const RawEntry& e, GpuSettings& s,
                    Diagnostics& d) { read_auto_or_amount(e, s.headroom, d); }},
}};

// ---- [[tenant]]

constexpr std::string_view kMatchTitle = "\"match\" of [[tenant]]";

struct Match {
  std::string exe;
  std::string cgroup;
};

void read_glob(const RawEntry& entry, std::string& out, Diagnostics& errors) {
  out = read_text(entry, errors).value_or("");
}

constexpr std::array<Field<Match>, 2> kMatch{{
    {"exe", [](const RawEntry& e, Match& m, Diagnostics& d) { read_glob(e, m.exe, d); }},
    {"cgroup", [](const RawEntry& e, Match& m, Diagnostics& d) { read_glob(e, m.cgroup, d); }},
}};

void read_match(const RawEntry& entry, TenantSettings& tenant, Diagnostics& errors) {
  const auto* table = std::get_if<RawTable>(&entry.value.data);
  if (table == nullptr) {
    return add_wrong_type(entry, "a table such as { exe = \"*/ffmpeg\" }", errors);
  }
  Match match;
  read_fields<Match>(*table, kMatchTitle, kMatch, match, errors);
  const auto given = [&](const char* key) {
    const RawEntry* glob = find_entry(*table, key);
    const auto* text = glob ? std::get_if<std::string>(&glob->value.data) : nullptr;
    return glob != nullptr && (text == nullptr || !text->empty());
  };
  if (!given("exe") && !given("cgroup")) {
    add_error(entry, "needs \"exe\" or \"cgroup\"", errors);
  }
  tenant.match_exe = std::move(match.exe);
  tenant.match_cgroup = std::move(match.cgroup);
}

constexpr std::array<Field<TenantSettings>, 4> kTenant{{
    {"name", [](const RawEntry& e, TenantSettings& s, Diagnostics& d) { read_name(e, s.name, d); }},
    {"match", read_match},
    {"vram", [](const RawEntry& e, TenantSettings& s,
                Diagnostics& d) { read_auto_or_bytes(e, s.vram, d); }},
    {"ram",
     [](const RawEntry& e, TenantSettings& s, Diagnostics& d) { read_auto_or_bytes(e, s.ram, d); }},
}};

// ---- The whole

/// What is wrong with an entry that must be [key] or [[key]], once and for both.
const RawTable* as_section(const RawEntry& entry, Diagnostics& errors) {
  const auto* table = std::get_if<RawTable>(&entry.value.data);
  if (table == nullptr) {
    errors.add(entry.key_at, fmt::format("\"{0}\" must be a table, [{0}], not {1}", entry.key,
                                         kind_of(entry.value)));
  }
  return table;
}

/// Calls `each(value, table)` for the first `most` tables of [[key]].
template <class Each>
void for_tables(const RawEntry& entry, std::size_t most, Diagnostics& errors, Each each) {
  const auto* values = std::get_if<RawArray>(&entry.value.data);
  if (values == nullptr) {
    errors.add(entry.key_at, fmt::format("\"{0}\" must be a list of tables, [[{0}]], not {1}",
                                         entry.key, kind_of(entry.value)));
    return;
  }
  std::size_t count = 0;
  for (const RawValue& value : *values) {
    if (count++ == most) {
      errors.add(value.at, fmt::format("more than {} [[{}]]", most, entry.key));
      return;
    }
    const auto* table = std::get_if<RawTable>(&value.data);
    if (table == nullptr) {
      errors.add(value.at,
                 fmt::format("[[{}]] must be a table, not {}", entry.key, kind_of(value)));
      continue;
    }
    each(value, *table);
  }
}

/// Adds an error where `id`, the value of `key`, was there before; each has its line.
class UniqueIds {
 public:
  void check(const RawTable& table, std::string_view key, const std::string& id,
             Diagnostics& errors) {
    const RawEntry* entry = find_entry(table, key);
    if (entry == nullptr || id.empty()) return;
    const auto [it, fresh] = lines_.emplace(id, entry->value.at.line);
    if (!fresh) {
      add_error(*entry, fmt::format("{} is already used on line {}", id, it->second), errors);
    }
  }

 private:
  std::map<std::string, std::uint32_t> lines_;
};

void read_gpus(const RawEntry& entry, Settings& settings, Diagnostics& errors) {
  UniqueIds uuids;
  UniqueIds indexes;
  for_tables(entry, kMaxGpus, errors, [&](const RawValue& value, const RawTable& table) {
    GpuSettings gpu;
    read_fields<GpuSettings>(table, "[[gpu]]", kGpu, gpu, errors);
    const bool has_uuid = find_entry(table, "uuid") != nullptr;
    const RawEntry* index = find_entry(table, "index");
    if (!has_uuid && index == nullptr) errors.add(value.at, "[[gpu]] needs \"uuid\" or \"index\"");
    if (has_uuid && index != nullptr) {
      errors.add(index->key_at, "[[gpu]] takes \"uuid\" or \"index\", not both");
    }
    uuids.check(table, "uuid", gpu.uuid, errors);
    indexes.check(table, "index", gpu.index ? std::to_string(*gpu.index) : "", errors);
    settings.gpus.push_back(std::move(gpu));
  });
}

void read_models(const RawEntry& entry, Settings& settings, Diagnostics& errors) {
  UniqueIds names;
  for_tables(entry, kMaxModels, errors, [&](const RawValue& value, const RawTable& table) {
    ModelSettings model = read_model(value, table, errors);
    names.check(table, "name", model.name, errors);
    settings.models.push_back(std::move(model));
  });
}

void read_tenants(const RawEntry& entry, Settings& settings, Diagnostics& errors) {
  UniqueIds names;
  for_tables(entry, kMaxTenants, errors, [&](const RawValue& value, const RawTable& table) {
    TenantSettings tenant;
    read_fields<TenantSettings>(table, "[[tenant]]", kTenant, tenant, errors);
    for (const std::string_view key : {"name", "match"}) {
      if (find_entry(table, key) == nullptr) {
        errors.add(value.at, fmt::format("[[tenant]] has no \"{}\"", key));
      }
    }
    names.check(table, "name", tenant.name, errors);
    settings.tenants.push_back(std::move(tenant));
  });
}

template <class T>
void read_section(const RawEntry& entry, std::span<const Field<T>> fields, T& out,
                  Diagnostics& errors) {
  const RawTable* table = as_section(entry, errors);
  if (table != nullptr) read_fields(*table, fmt::format("[{}]", entry.key), fields, out, errors);
}

void read_http(const RawEntry& entry, Settings& settings, Diagnostics& errors) {
  read_section<HttpSettings>(entry, kHttp, settings.http, errors);
  const auto* table = std::get_if<RawTable>(&entry.value.data);
  if (table != nullptr) check_http(*table, settings.http, errors);
}

constexpr std::array<Field<Settings>, 8> kRoot{{
    {"agent", [](const RawEntry& e, Settings& s,
                 Diagnostics& d) { read_section<AgentSettings>(e, kAgent, s.agent, d); }},
    {"budget", [](const RawEntry& e, Settings& s,
                  Diagnostics& d) { read_section<BudgetSettings>(e, kBudget, s.budget, d); }},
    {"gpu", read_gpus},
    {"stream", [](const RawEntry& e, Settings& s,
                  Diagnostics& d) { read_section<StreamSettings>(e, kStream, s.stream, d); }},
    {"watch", [](const RawEntry& e, Settings& s,
                 Diagnostics& d) { read_section<WatchSettings>(e, kWatch, s.watch, d); }},
    {"model", read_models},
    {"tenant", read_tenants},
    {"http", read_http},
}};

std::string title_of(std::string_view section) {
  const bool list = section == "gpu" || section == "model" || section == "tenant";
  return list ? fmt::format("[[{}]]", section) : fmt::format("[{}]", section);
}

/// How the table that has `key` is written; empty where none has it.
std::string title_elsewhere(std::string_view key) {
  static const std::vector<std::string> paths = known_keys();
  for (const std::string_view path : paths) {
    const std::size_t dot = path.rfind('.');
    if (path.substr(dot + 1) != key) continue;
    const std::string_view table = path.substr(0, dot);
    return table == "tenant.match" ? std::string(kMatchTitle) : title_of(table);
  }
  return "";
}

void add_unknown_section(const RawEntry& entry, Diagnostics& errors) {
  const bool table = std::holds_alternative<RawTable>(entry.value.data);
  const bool list = std::holds_alternative<RawArray>(entry.value.data);
  std::string message = table ? "unknown table " : "unknown key ";
  message += in_quotes(entry.key);
  const auto near = nearest_name(entry.key, keys_of<Settings>(kRoot));
  if (near) {
    message += fmt::format("; did you mean {}?", title_of(*near));
  } else if (const std::string title = title_elsewhere(entry.key); !table && !title.empty()) {
    message += "; it belongs in " + title;
  } else if (!table && !list) {
    message += " outside of any table";
  }
  errors.add(entry.key_at, std::move(message));
}

}  // namespace

const RawEntry* find_entry(const RawTable& table, std::string_view key) noexcept {
  const auto it = std::find_if(table.begin(), table.end(),
                               [&](const RawEntry& entry) { return entry.key == key; });
  return it == table.end() ? nullptr : &*it;
}

void add_unknown_key(const RawEntry& entry, std::string_view title,
                     std::span<const std::string_view> known, Diagnostics& errors) {
  std::string message = fmt::format("unknown key {} in {}", in_quotes(entry.key), title);
  if (const std::string other = title_elsewhere(entry.key); !other.empty()) {
    message += "; it belongs in " + other;
  } else if (const auto near = nearest_name(entry.key, known)) {
    message += fmt::format("; did you mean {}?", in_quotes(*near));
  }
  errors.add(entry.key_at, std::move(message));
}

Settings compile_tables(const RawTable& root, Diagnostics& errors) {
  Settings settings;
  for (const RawEntry& entry : root) {
    const auto field = std::find_if(kRoot.begin(), kRoot.end(),
                                    [&](const auto& known) { return known.key == entry.key; });
    if (field == kRoot.end()) {
      add_unknown_section(entry, errors);
    } else {
      field->read(entry, settings, errors);
    }
  }
  return settings;
}

std::vector<std::string> known_keys() {
  std::vector<std::string> result;
  const auto add = [&](std::string_view table, const auto& fields) {
    for (const auto& field : fields)
      result.push_back(fmt::format("{}.{}", table, field.key));
  };
  add("agent", kAgent);
  add("budget", kBudget);
  add("gpu", kGpu);
  add("stream", kStream);
  add("watch", kWatch);
  add("model", model_fields());
  add("tenant", kTenant);
  add("tenant.match", kMatch);
  add("http", kHttp);
  return result;
}

}  // namespace andiron::config
