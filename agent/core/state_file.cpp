// SPDX-License-Identifier: MIT
#include "agent/core/state_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "agent/api/json_body.hpp"
#include "agent/base/unique_fd.hpp"
#include "agent/os/file.hpp"

namespace andiron::core {
namespace {

using json = nlohmann::json;

/// Some 4,000 models: more than may be wanted at once.
constexpr std::size_t kLargestState = 4 * 1024 * 1024;

Result<void> write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return make_system_error(errno, "write");
    done += static_cast<std::size_t>(written);
  }
  return {};
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::uint64_t number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

/// nullopt where there is none. Errors: bad_format for what is no object with that array in it.
Result<std::optional<json>> load(const std::string& path, const char* array) {
  const auto fd = os::open_regular(path);
  if (!fd) {
    if (fd.error().errc() == Errc::source_not_found) return std::optional<json>();
    return fd.error();
  }
  std::string text;
  std::string block(65536, '\0');
  for (;;) {
    const ssize_t count = ::read(fd->get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return make_system_error(errno, path);
    if (count == 0) break;
    text.append(block, 0, static_cast<std::size_t>(count));
    if (text.size() > kLargestState) return make_error(Errc::too_large, path);
  }
  json root = json::parse(text, nullptr, false);
  if (!root.is_object() || !root.contains(array) || !root[array].is_array()) {
    return make_error(Errc::bad_format, path);
  }
  return std::optional<json>(std::move(root));
}

/// Beside, synced, and renamed over.
Result<void> save(const std::string& state_dir, const char* name, const json& root) {
  const std::string text = api::dump(root) + "\n";
  const std::string path = state_dir + "/" + name;
  const std::string beside = path + ".new";
  {
    const UniqueFd fd(
        ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return make_system_error(errno, beside);
    TRY(write_all(fd.get(), text).wrap(beside));
    if (::fsync(fd.get()) != 0) return make_system_error(errno, beside);
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) return make_system_error(errno, path);
  const UniqueFd folder(::open(state_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) return make_system_error(errno, state_dir);
  return {};
}

}  // namespace

Result<std::vector<WantedModel>> load_wanted(const std::string& state_dir) {
  std::vector<WantedModel> models;
  const auto root = TRY(load(state_dir + "/wanted.json", "wanted"));
  if (!root) return models;
  for (const json& item : (*root)["wanted"]) {
    if (!item.is_object()) continue;
    WantedModel model;
    model.name = text_of(item, "name");
    model.source = text_of(item, "source");
    model.hold = parse_hold(text_of(item, "hold"));
    model.tier = parse_tier(text_of(item, "tier"));
    model.configured = item.value("configured", json(false)) == json(true);
    if (const auto also = item.find("also"); also != item.end() && also->is_array()) {
      for (const json& path_of : *also) {
        if (path_of.is_string()) model.also.push_back(path_of.get<std::string>());
      }
    }
    if (!model.name.empty() && !model.source.empty()) models.push_back(std::move(model));
  }
  return models;
}

Result<void> save_wanted(const std::string& state_dir, const std::vector<WantedModel>& models) {
  json list = json::array();
  for (const WantedModel& model : models) {
    list.push_back({{"name", model.name},
                    {"source", model.source},
                    {"also", model.also},
                    {"configured", model.configured},
                    {"hold", model.hold ? json(to_string(*model.hold)) : json(nullptr)},
                    {"tier", model.tier ? json(to_string(*model.tier)) : json(nullptr)}});
  }
  return save(state_dir, "wanted.json", {{"version", 1}, {"wanted", std::move(list)}});
}

Result<ResidentModels> load_resident(const std::string& state_dir) {
  ResidentModels resident;
  const auto root = TRY(load(state_dir + "/resident.json", "models"));
  if (!root) return resident;
  resident.boot_id = text_of(*root, "boot_id");
  for (const json& item : (*root)["models"]) {
    if (!item.is_object()) continue;
    const ResidentModel model{text_of(item, "name"), number_of(item, "files"),
                              number_of(item, "bytes"), number_of(item, "resident_bytes")};
    if (!model.name.empty()) resident.models.push_back(model);
  }
  return resident;
}

Result<void> save_resident(const std::string& state_dir, const ResidentModels& resident) {
  json list = json::array();
  for (const ResidentModel& model : resident.models) {
    list.push_back({{"name", model.name},
                    {"files", model.files},
                    {"bytes", model.bytes},
                    {"resident_bytes", model.resident}});
  }
  return save(state_dir, "resident.json",
              {{"version", 1}, {"boot_id", resident.boot_id}, {"models", std::move(list)}});
}

}  // namespace andiron::core
