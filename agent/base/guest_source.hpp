// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace andiron {

/// What a source begins with that lies in a guest, that is in a system container with a root folder
/// of its own: "guest:NAME:REST". REST is a path in there, or a source of a store in there. The
/// files that it resolves to have paths of the same form.
inline constexpr std::string_view kGuestPrefix = "guest:";

/// Docker's, Podman's and LXC's own rule for names: [A-Za-z0-9][A-Za-z0-9_.-]*, at most 128.
bool is_container_name(std::string_view name) noexcept;

struct GuestSource {
  std::string_view guest;
  std::string_view rest;  // not empty
};

/// nullopt where the text has another form; the views are of `text`.
std::optional<GuestSource> split_guest_source(std::string_view text) noexcept;

/// The same, for paths: the rest begins with a slash.
std::optional<GuestSource> split_guest_path(std::string_view text) noexcept;

/// "guest:NAME:" and `rest`.
std::string join_guest_source(std::string_view guest, std::string_view rest);

}  // namespace andiron
