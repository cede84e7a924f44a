#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# install-packages.sh GROUP...: installs the Debian or Ubuntu packages of each group that are
# missing, with sudo where it is not root. Groups: build, test, docker (for tests with a dockerd of
# their own), fuzz, format, quickstart, bench, vm, package.
set -euo pipefail

declare -A groups=(
  [build]="g++ cmake ninja-build pkg-config libfmt-dev libspdlog-dev libtomlplusplus-dev
           nlohmann-json3-dev libcli11-dev libboost-dev libexpected-dev liburing-dev
           libsystemd-dev libxxhash-dev"
  [test]="libgtest-dev libgmock-dev curl jq util-linux fio vmtouch xfsprogs btrfs-progs python3
          python3-venv python3-numpy dpkg-dev file lintian man-db shellcheck strace systemd zsh
          python3-yaml"
  [docker]="docker.io busybox-static mmdebstrap"
  [fuzz]="clang libclang-rt-dev"
  [format]="clang-format-14"
  [quickstart]="python3"
  [vm]="mmdebstrap qemu-system-x86 qemu-utils e2fsprogs python3"
  [package]="dpkg-dev file"
  [bench]="fio vmtouch util-linux python3 xfsprogs"
)

wanted=()
for group in "$@"; do
  [[ -n ${groups[$group]:-} ]] || { echo "install-packages.sh: no group '$group'" >&2; exit 2; }
  read -r -d '' -a names <<<"${groups[$group]}" || true
  wanted+=("${names[@]}")
done

if ! command -v dpkg-query >/dev/null; then
  echo "This is not Debian or Ubuntu: please see that these are there: ${wanted[*]}"
  exit 0
fi

missing=()
for name in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$name")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || {
    echo "These packages are missing, and there is no sudo: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "Installing with apt-get: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install=("${as_root[@]}" apt-get install -y --no-install-recommends -qq "${missing[@]}")
# A machine that has fresh lists need not fetch them again.
"${install[@]}" </dev/null >/dev/null 2>&1 || {
  "${as_root[@]}" apt-get update -qq </dev/null
  "${install[@]}" </dev/null >/dev/null
}
