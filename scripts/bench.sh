#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# bench.sh [--rounds N] [--size MIB] [--dir DIR]: the targets, measured. The agent as a whole: its
# memory, its answers under 64 clients, and, as root, leases. Then the page-cache tier side by side
# with vmtouch, dd and fio, and, as root, the pinned-ram tier with fio: nine rounds, 2048 MiB, in
# build/, unless told otherwise; as root also on a loop device with a read-ahead of 128 KiB, which is
# what most disks have. Installs and builds what is missing, changes no setting of the system, and removes what it
# made.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=9
size=2048
dir=build
while [[ $# -gt 0 ]]; do
  case $1 in
    --rounds) rounds=${2:?--rounds needs a number}; shift ;;
    --size) size=${2:?--size needs a number of MiB}; shift ;;
    --dir) dir=${2:?--dir needs a folder}; shift ;;
    -h | --help) sed -n '4,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "bench.sh: what is '$1'? See --help" >&2; exit 2 ;;
  esac
  shift
done
for number in "$rounds" "$size"; do
  [[ $number =~ ^[1-9][0-9]{0,5}$ ]] || { echo "bench.sh: no number: '$number'" >&2; exit 2; }
done
((size >= 64)) || { echo "bench.sh: below 64 MiB nothing can be told apart" >&2; exit 2; }

program=build/release/tests/bench/page_cache_bench
scripts/install-packages.sh build test bench
mkdir -p build/release
{
  cmake --preset release -DANDIRON_TESTS=ON
  cmake --build --preset release -j "$(nproc)" \
    --target andirond andironctl api_load lease_attach page_cache_bench pinned_bench
} >build/release/bench-build.log 2>&1 || { cat build/release/bench-build.log >&2; exit 1; }

mkdir -p "$dir"
work=$(mktemp -d "$dir/andiron-bench-XXXXXX")
loop=""
cleanup() {
  if mountpoint -q "$work/mount"; then umount "$work/mount"; fi
  if [[ -n $loop ]]; then losetup -d "$loop"; fi
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# make_files FOLDER MIB: the file and the one of a tenth, written out, so that none of it is dirty.
make_files() {
  # Bytes that no file system, disk or host can compress or share.
  head -c "$(($2 * 1048576))" /dev/urandom >"$1/whole"
  head -c "$(($2 * 1048576 / 10))" /dev/urandom >"$1/tenth"
  sync -f "$1/whole"
}

# need MIB: so much space in the folder, or an honest end.
need() {
  local left
  left=$(df --output=avail -m "$work" | tail -1)
  ((left > $1)) || { echo "bench.sh: $1 MiB are needed in $dir, $left are left" >&2; exit 1; }
}

need 1200
scripts/bench-agent.py build/release "$dir"
if [[ $(id -u) -eq 0 ]]; then
  scripts/bench-lease.py build/release "$dir"
  scripts/bench-load.py build/release "$dir"
fi

need $((size * 12 / 10))
make_files "$work" "$size"
echo "$(uname -sr), $(nproc) CPUs; a round takes about a minute and a half"
scripts/bench-page-cache.py "$program" "$work/whole" "$work/tenth" "$rounds" \
  "$(df --output=source "$work" | tail -1), $(df --output=fstype "$work" | tail -1)"
pinned=build/release/tests/bench/pinned_bench
if [[ $(id -u) -eq 0 ]]; then
  scripts/bench-pinned.py "$pinned" "$program" "$work/whole" "$rounds" \
    "$(df --output=source "$work" | tail -1)"
fi
rm -f "$work/whole" "$work/tenth"

if [[ $(id -u) -ne 0 ]]; then
  echo "the rows on a loop device are left out: they need root"
  exit 0
fi
small=$((size < 1024 ? size : 1024))
need $((small * 13 / 10))
truncate -s $((small * 12 / 10 + 64))M "$work/image"
mkfs.ext4 -q -F "$work/image"
# Direct, so that a cold file is not warm one floor below.
loop=$(losetup -f --show --direct-io=on "$work/image")
# Of a device that nobody else has: no setting of the system.
blockdev --setra 256 "$loop"
mkdir "$work/mount"
mount "$loop" "$work/mount"
make_files "$work/mount" "$small"
scripts/bench-page-cache.py "$program" "$work/mount/whole" "$work/mount/tenth" "$rounds" \
  "a loop device with a read-ahead of 128 KiB, ext4"
scripts/bench-pinned.py "$pinned" "$program" "$work/mount/whole" "$rounds" "that loop device"
