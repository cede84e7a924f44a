// SPDX-License-Identifier: MIT
#include "agent/catalog/assembly.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "agent/base/guest_source.hpp"
#include "agent/base/units.hpp"
#include "agent/catalog/borrowed_pages.hpp"
#include "agent/catalog/duplicates.hpp"
#include "agent/catalog/file_names.hpp"
#include "agent/catalog/gguf.hpp"
#include "agent/catalog/safetensors.hpp"
#include "agent/os/file.hpp"

namespace andiron::catalog {
namespace {

// Enough for a person to read; a folder of thousands of odd files should not fill the API's answer.
constexpr std::size_t kMaxNotes = 64;
// As the kernel counts bytes of one file: sparse files of that size exist, and sums must not wrap.
constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();
// Names in an error message.
constexpr std::size_t kMaxNamed = 8;

bool is_missing(const Error& error) { return error.errc() == Errc::source_not_found; }

/// What a repository cloned without git-lfs has in place of its weights.
constexpr std::string_view kLfsPointer = "version https://git-lfs";

std::string list_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMaxNamed)
    text += " and " + std::to_string(names.size() - kMaxNamed) + " more";
  return text;
}

std::optional<std::uint32_t> parse_five_digits(std::string_view text) {
  std::uint32_t value = 0;
  if (text.size() != 5 || text.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string five_digits(std::uint32_t value) {
  std::string text = std::to_string(value);
  return std::string(5 - std::min<std::size_t>(5, text.size()), '0') + text;
}

}  // namespace

std::string ShardName::file_name(std::uint32_t shard) const {
  return prefix + "-" + five_digits(shard) + "-of-" + five_digits(count) + extension;
}

std::optional<ShardName> parse_shard_name(std::string_view file_name) {
  ShardName shard;
  for (const std::string_view extension : {".gguf", ".safetensors"}) {
    if (file_name.ends_with(extension)) shard.extension = extension;
  }
  if (shard.extension.empty()) return std::nullopt;
  file_name.remove_suffix(shard.extension.size());
  constexpr std::size_t kTail = 15;  // "-00001-of-00005"
  if (file_name.size() <= kTail) return std::nullopt;
  const std::string_view tail = file_name.substr(file_name.size() - kTail);
  const auto number = parse_five_digits(tail.substr(1, 5));
  const auto count = parse_five_digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !number || !count) return std::nullopt;
  if (*number == 0 || *number > *count) return std::nullopt;
  shard.prefix = file_name.substr(0, file_name.size() - kTail);
  shard.number = *number;
  shard.count = *count;
  return shard;
}

Assembly::Assembly(std::string_view source, const ResolveOptions& options)
    : scope_(options.allow_roots ? Scope::below(*options.allow_roots) : Scope::everywhere()),
      opener_(options.guests),
      want_tensors_(options.want_tensors) {
  resolved_.source = source;
}

void Assembly::note(std::string text) {
  if (resolved_.notes.size() < kMaxNotes)
    resolved_.notes.push_back(std::move(text));
  else
    ++notes_left_out_;
}

Result<Located> Assembly::locate(const std::string& path) {
  std::vector<std::string> links;
  const auto find = [&]() -> Result<Located> {
    const auto inside = split_guest_path(path);
    if (!inside) return scope_.locate(path, &links);
    TRY(check_guest(inside->guest));
    return locate_in_guest(*TRY(opener_.guest(inside->guest)), inside->rest, &links);
  };
  Result<Located> located = find();
  watch_.insert(links.begin(), links.end());
  return located;
}

Result<void> Assembly::check_guest(std::string_view guest) {
  if (scope_.restricted()) {
    return make_error(Errc::outside_roots, "guest " + std::string(guest));
  }
  static_cast<void>(TRY(opener_.guest(guest)));
  return {};
}

Result<std::vector<std::string>> Assembly::list(const Located& folder) {
  watch(folder.path);
  std::vector<std::string> names = TRY(list_located(folder, entries_left_));
  entries_left_ -= names.size();
  return names;
}

void Assembly::know_digest(std::string digest, const Located& file) {
  // Each is looked for in every store: the largest layers come first, and are what matters.
  constexpr std::size_t kMaxDigests = 16;
  if (digests_.size() < kMaxDigests) digests_.emplace_back(std::move(digest), file.path);
}

Result<void> Assembly::add_file(const std::string& path, Role role,
                                std::optional<std::uint64_t> expected) {
  if (given_.contains(path)) return {};
  const Located file = TRY(locate(path));
  TRY(add_located(file, path, role, expected).wrap(path));
  given_.insert(path);
  return {};
}

Result<void> Assembly::add_located(const Located& file, const std::string& given, Role role,
                                   std::optional<std::uint64_t> expected) {
  if (!file.is_file()) return make_error(Errc::not_regular_file, "");
  const std::pair<std::uint64_t, std::uint64_t> inode(file.status.st_dev, file.status.st_ino);
  if (const auto known = inodes_.find(inode); known != inodes_.end()) {
    const std::string& first = resolved_.files[known->second].path;
    note(given + " is the same file as " + first + ": counted once");
    return {};
  }
  if (resolved_.files.size() == kMaxFiles)
    return make_error(Errc::too_large, "more than " + std::to_string(kMaxFiles) + " files");
  const UniqueFd fd = TRY(open_located(file));
  const os::FileInfo info = TRY(os::stat_fd(fd.get()));
  const std::uint64_t size = info.identity.size;
  if (os::is_made_by_kernel(fd.get())) {
    return make_error(Errc::not_regular_file, "the kernel makes it up, and nothing stores it");
  }
  if (expected && size != *expected) {
    return make_error(
        size < *expected ? Errc::truncated : Errc::bad_format,
        std::to_string(size) + " bytes where the manifest says " + std::to_string(*expected));
  }
  if (size > kMaxBytes - resolved_.bytes)
    return make_error(Errc::too_large, "more than 8 EiB in all");
  resolved_.files.push_back({file.path, info.identity, role == Role::companion, given});
  resolved_.bytes += size;
  inodes_.emplace(inode, static_cast<std::uint32_t>(resolved_.files.size() - 1));
  const std::string name = base_name(file.path);
  if (name.size() == 64 && file.path.find("/blobs/") != std::string::npos) know_digest(name, file);
  const BorrowedPages borrowed(fd.get(), size);
  return check_header(fd.get(), given, role);
}

Result<void> Assembly::check_header(int fd, const std::string& given, Role role) {
  const ModelFile& file = resolved_.files.back();
  const auto named = [&](std::string_view extension) {
    return std::string_view(given).ends_with(extension) ||
           std::string_view(file.path).ends_with(extension);
  };
  const bool must_be_gguf = named(".gguf");
  const bool must_be_safetensors = !must_be_gguf && named(".safetensors");
  HeaderReader reader = HeaderReader::over_file(fd, file.identity.size);
  const std::string start =
      TRY(reader.read_string(std::min<std::uint64_t>(kLfsPointer.size(), reader.size())));
  if ((must_be_gguf || must_be_safetensors) && start == kLfsPointer)
    return make_error(Errc::bad_format, "a Git LFS pointer, not the weights that it stands for");
  if (must_be_gguf || has_gguf_magic(start)) return check_gguf(fd, given, role);
  if (!must_be_safetensors) return {};
  reader = HeaderReader::over_file(fd, file.identity.size);
  SafetensorsHeader header = TRY(parse_safetensors(reader, want_tensors_ && role == Role::weights));
  tensor_count_ += header.tensor_count;
  keep_tensors(std::move(header.tensors), role);
  if (tensor_count_ > kMaxTensors) return make_error(Errc::too_large, "more than 1 << 20 tensors");
  return {};
}

Result<void> Assembly::check_gguf(int fd, const std::string& given, Role role) {
  const ModelFile& file = resolved_.files.back();
  HeaderReader reader = HeaderReader::over_file(fd, file.identity.size);
  GgufHeader header = TRY(parse_gguf(reader, want_tensors_ && role == Role::weights));
  tensor_count_ += header.tensor_count;
  if (tensor_count_ > kMaxTensors) return make_error(Errc::too_large, "more than 1 << 20 tensors");
  keep_tensors(std::move(header.tensors), role);
  if (role == Role::weights && !resolved_.metadata && !header.metadata.architecture.empty())
    resolved_.metadata = std::move(header.metadata);
  const auto shard = parse_shard_name(base_name(given));
  const std::uint64_t count = header.split_count.value_or(1);
  const std::uint64_t number = header.split_no.value_or(0);
  if (shard && header.split_count && (count != shard->count || number + 1 != shard->number)) {
    return make_error(Errc::bad_format, "its header says shard " + std::to_string(number + 1) +
                                            " of " + std::to_string(count) +
                                            ", which is not what its name says");
  }
  if (!shard && count > 1) lone_splits_.push_back({given, number, count});
  return {};
}

void Assembly::keep_tensors(std::vector<Tensor>&& tensors, Role role) {
  if (!want_tensors_ || role != Role::weights) return;
  const auto index = static_cast<std::uint32_t>(resolved_.files.size() - 1);
  for (Tensor& tensor : tensors) {
    tensor.file = index;
    resolved_.tensors.push_back(std::move(tensor));
  }
}

Result<void> Assembly::add_all(const std::string& folder, const std::vector<std::string>& names,
                               Role role) {
  if (names.size() > kMaxFiles) return make_error(Errc::too_large, "more than 4096 shards");
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    const std::string path = join_path(folder, name);
    if (given_.contains(path)) continue;
    Result<Located> located = locate(path);
    if (located) continue;
    if (!is_missing(located.error())) return std::move(located).error();
    missing.push_back(name);
  }
  if (!missing.empty()) {
    return make_error(Errc::incomplete_shards,
                      std::to_string(missing.size()) + " of " + std::to_string(names.size()) +
                          " files are missing in " + folder + ": " + list_names(missing));
  }
  for (const std::string& name : names)
    TRY(add_file(join_path(folder, name), role));
  return {};
}

Result<void> Assembly::add_weights(const std::string& path, Role role) {
  const auto shard = parse_shard_name(base_name(path));
  if (!shard || shard->count == 1) return add_file(path, role);
  if (shard->count > kMaxFiles) return make_error(Errc::too_large, path + ": too many shards");
  const std::string folder = parent_path(path);
  std::vector<std::string> names;
  bool any = false;
  for (std::uint32_t i = 1; i <= shard->count; ++i) {
    names.push_back(shard->file_name(i));
    any = any || locate(join_path(folder, names.back())).has_value();
  }
  // Nothing of it there: the reason is that of the file that was named.
  if (!any) return add_file(path, role);
  return add_all(folder, names, role);
}

void Assembly::note_lone_splits() {
  std::map<std::uint64_t, std::set<std::uint64_t>> numbers;
  for (const Split& split : lone_splits_)
    numbers[split.count].insert(split.number);
  for (const Split& split : lone_splits_) {
    if (numbers[split.count].size() >= split.count) continue;
    note(split.path + " says that it is shard " + std::to_string(split.number + 1) + " of " +
         std::to_string(split.count) + ", and its name does not tell where the others are");
  }
}

/// Looks for the blobs of this model in all other stores, by name.
void Assembly::note_same_digests(const Places& places) {
  constexpr std::size_t kMaxRepositories = 1024;
  std::vector<std::string> folders;  // and what stands before a digest there
  for (const std::string& store : places.ollama_stores)
    folders.push_back(join_path(store, "blobs/sha256-"));
  for (const std::string& cache : places.hf_caches) {
    const Result<Located> folder = scope_.locate(cache);
    if (!folder) continue;
    const auto names = list_located(*folder, kMaxEntries);
    if (!names) continue;
    for (const std::string& name : *names) {
      if (name.starts_with("models--") && folders.size() < kMaxRepositories)
        folders.push_back(join_path(cache, name + "/blobs/"));
    }
  }
  for (const auto& [digest, path] : digests_) {
    for (const std::string& folder : folders) {
      const Result<Located> other = scope_.locate(folder + digest);
      if (!other || inodes_.contains({other->status.st_dev, other->status.st_ino})) continue;
      note("the same weights as " + path + " also lie at " + other->path +
           ", which is another file and not counted");
    }
  }
}

Result<Resolved> Assembly::finish(const Places& places) {
  if (resolved_.bytes == 0 && !resolved_.files.empty())
    return make_error(Errc::bad_format, resolved_.files.front().path + " is empty");
  note_lone_splits();
  note_same_digests(places);
  for (std::string& text : find_duplicates({&resolved_}))
    note(std::move(text));
  if (notes_left_out_ > 0)
    resolved_.notes.push_back("and " + std::to_string(notes_left_out_) + " more notes");
  name_files(resolved_.files);
  for (const ModelFile& file : resolved_.files)
    watch_.erase(file.path);
  resolved_.watch.assign(watch_.begin(), watch_.end());
  return std::move(resolved_);
}

}  // namespace andiron::catalog
