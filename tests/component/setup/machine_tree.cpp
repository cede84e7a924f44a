// SPDX-License-Identifier: MIT
#include "tests/component/setup/machine_tree.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <stdexcept>

namespace andiron::testing {
namespace {

template <class Number>
void put(std::string& bytes, Number value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof value);
}

std::string floats_of(int seed, std::size_t count) {
  std::string data;
  for (std::size_t i = 0; i < count; ++i) {
    put(data, static_cast<float>(seed) + static_cast<float>(i) / 1000.0F);
  }
  return data;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += part + '\0';
  }
  return text;
}

/// No hash, but 64 hex digits that differ with the seed.
std::string digest(int seed) { return fmt::format("{:064x}", seed + 0xabc000); }

}  // namespace

std::string gguf_bytes(int seed, std::size_t floats) {
  std::string bytes = "GGUF";
  put(bytes, std::uint32_t{3});
  put(bytes, std::uint64_t{1});  // tensors
  put(bytes, std::uint64_t{0});  // keys
  const std::string name = "token_embd.weight";
  put(bytes, std::uint64_t{name.size()});
  bytes += name;
  put(bytes, std::uint32_t{1});
  put(bytes, std::uint64_t{floats});
  put(bytes, std::uint32_t{0});  // F32
  put(bytes, std::uint64_t{0});  // offset
  bytes.resize((bytes.size() + 31) / 32 * 32);
  return bytes + floats_of(seed, floats);
}

MachineTree::MachineTree(std::uint64_t memory_bytes) {
  write("/proc/meminfo", fmt::format("MemTotal: {0} kB\nMemFree: {1} kB\nMemAvailable: {1} kB\n"
                                     "Mlocked: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
                                     memory_bytes / 1024, memory_bytes / 2048));
  write("/proc/self/cgroup", "0::/\n");
  write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
}

void MachineTree::write(std::string_view path, std::string_view content) const {
  dir_.write(path.substr(1), content);
}

void MachineTree::link(std::string_view target, std::string_view path) const {
  const std::filesystem::path place = at(path);
  std::filesystem::create_directories(place.parent_path());
  std::filesystem::create_symlink(target, place);
}

std::string MachineTree::gguf(std::string_view path, int seed, std::size_t floats) const {
  write(path, gguf_bytes(seed, floats));
  return at(path);
}

std::string MachineTree::safetensors(std::string_view path, int seed) const {
  std::string header = R"({"weight":{"dtype":"F32","shape":[64],"data_offsets":[0,256]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string bytes;
  put(bytes, std::uint64_t{header.size()});
  write(path, bytes + header + floats_of(seed, 64));
  return at(path);
}

std::string MachineTree::ollama(std::string_view store, std::string_view name, std::string_view tag,
                                int seed, std::size_t floats) const {
  const std::string blob = fmt::format("{}/blobs/sha256-{}", store, digest(seed));
  const std::string bytes = gguf_bytes(seed, floats);
  write(blob, bytes);
  write(fmt::format("{}/blobs/sha256-{}", store, digest(seed + 5000)), "{}");
  constexpr const char* kManifest =
      R"({{"schemaVersion":2,"config":{{"digest":"sha256:{1}","size":2}},"layers":[)"
      R"({{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:{0}","size":{2}}},)"
      R"({{"mediaType":"application/vnd.ollama.image.params","digest":"sha256:{1}","size":2}}]}})";
  write(fmt::format("{}/manifests/registry.ollama.ai/library/{}/{}", store, name, tag),
        fmt::format(kManifest, digest(seed), digest(seed + 5000), bytes.size()));
  return at(blob);
}

std::string MachineTree::hugging_face(std::string_view cache, std::string_view org,
                                      std::string_view name, int seed) const {
  const std::string repository = fmt::format("{}/models--{}--{}", cache, org, name);
  const std::string blob = safetensors(fmt::format("{}/blobs/{}", repository, digest(seed)), seed);
  write(repository + "/refs/main", "0123abcd");
  link("../../blobs/" + digest(seed), repository + "/snapshots/0123abcd/model.safetensors");
  write(repository + "/snapshots/0123abcd/config.json", "{}");
  return blob;
}

void MachineTree::process(const Process& process) const {
  const std::string folder = fmt::format("/proc/{}", process.pid);
  write(folder + "/comm", process.comm + "\n");
  write(folder + "/cmdline", joined(process.args));
  write(folder + "/cgroup", "0::" + process.cgroup + "\n");
  write(folder + "/environ", joined(process.environment));
  if (!process.exe.empty()) link(process.exe, folder + "/exe");
  if (!process.mountinfo.empty()) write(folder + "/mountinfo", process.mountinfo);
  std::string maps = "55d0c0000000-55d0c0100000 r-xp 00000000 00:00 0 [heap]\n";
  for (const std::string& path : process.maps) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) throw std::runtime_error("stat " + path);
    maps += fmt::format("7f0000000000-7f0000100000 r--s 00000000 {:02x}:{:02x} {}    {}\n",
                        major(info.st_dev), minor(info.st_dev), info.st_ino, path);
  }
  write(folder + "/maps", maps);
}

void MachineTree::used(const std::string& path, std::int64_t seconds_ago) const {
  const timespec when{std::time(nullptr) - seconds_ago, 0};
  const timespec times[2] = {when, when};
  if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0)
    throw std::runtime_error("utimensat " + path);
}

}  // namespace andiron::testing
