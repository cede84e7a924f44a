#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# quickstart.sh [FILE]: shows Andiron at work on FILE, or on a small model file that it makes. It
# installs what is missing, builds, starts a throw-away agent, warms the file and reads it cold and
# warm with the times of both; then, as root, lets a memory hog squeeze it out and warms it again.
# The hog and the agent live in a memory cgroup of their own, so that nothing else on the machine
# is squeezed. Everything it starts or makes is gone at its end. ANDIRON_BIN=DIR takes the binaries
# in DIR instead of building.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

case ${1:-} in
  -h | --help) sed -n '4,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac

work=$(mktemp -d "${TMPDIR:-/var/tmp}/andiron-quickstart.XXXXXX")
agent=""
cgroup=""
cleanup() {
  trap - EXIT
  [[ -n $agent ]] && kill "$agent" 2>/dev/null && wait "$agent" 2>/dev/null
  [[ -n $cgroup ]] && rmdir "$cgroup" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 && -z ${NO_COLOR:-} ]] || say() { printf '\n== %s\n' "$*"; }

file=${1:-}
if [[ -n $file ]]; then
  [[ -f $file && -r $file ]] || { echo "quickstart.sh: cannot read a file '$file'" >&2; exit 2; }
  file=$(realpath "$file")
fi

say "1. Build"
scripts/install-packages.sh quickstart
if [[ -n ${ANDIRON_BIN:-} ]]; then
  echo "taking the binaries in $ANDIRON_BIN"
else
  scripts/build.sh release
  ANDIRON_BIN=$root/build/release/bin
fi
export PATH=$ANDIRON_BIN:$PATH
export ANDIRON_SOCKET=$work/run/control.sock

# The least GGUF file that is one: a header, one tensor of 512 MiB, and its bytes.
make_model() {
  local path=$1 bytes=$((512 * 1024 * 1024))
  {
    printf 'GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' # version 3, 1 tensor, 0 keys
    printf '\x01\0\0\0\0\0\0\0w\x01\0\0\0'                    # its name, "w", of 1 dimension:
    printf '\0\0\0\x08\0\0\0\0'                               # 2^27 elements
    printf '\0\0\0\0\0\0\0\0\0\0\0\0'                         # of F32, at the data's start
  } >"$path"
  truncate -s $((($(stat -c %s "$path") + 31) / 32 * 32)) "$path"
  head -c "$bytes" /dev/urandom >>"$path"
  sync "$path"
}
if [[ -z $file ]]; then
  say "2. A model file of 512 MiB, since none was named"
  file=$work/model.gguf
  make_model "$file"
else
  say "2. Your file: $file"
fi
size=$(stat -c %s "$file")
ls -lh "$file"

# Gives back the file's own clean pages, and nobody else's. What somebody maps stays.
make_cold() { dd if="$file" iflag=nocache count=0 status=none; }
# What a runtime that loads it waits for: all of it, once, in order.
read_time() {
  local begin end
  begin=$(date +%s%N)
  dd if="$file" of=/dev/null bs=1M status=none
  end=$(date +%s%N)
  echo $(((end - begin) / 1000000))
}
seconds() { printf '%d.%03d s' $(($1 / 1000)) $(($1 % 1000)); }

# A memory cgroup with room for the file and a little more, for the agent and the hog to share.
make_cgroup() {
  [[ $(id -u) -eq 0 ]] || return 1
  limit=$((size + size / 2 + 128 * 1024 * 1024))
  if [[ -f /sys/fs/cgroup/memory/memory.limit_in_bytes ]]; then
    cgroup=/sys/fs/cgroup/memory/andiron-quickstart-$$
    mkdir "$cgroup" && echo "$limit" >"$cgroup/memory.limit_in_bytes"
  elif grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
    cgroup=/sys/fs/cgroup/andiron-quickstart-$$
    mkdir "$cgroup" && echo "$limit" >"$cgroup/memory.max"
  else
    return 1
  fi
}
enter() { [[ -z $cgroup ]] || echo "$BASHPID" >"$cgroup/cgroup.procs"; }

say "3. An agent of its own, in $work"
make_cgroup 2>/dev/null || { [[ -z $cgroup ]] || rmdir "$cgroup" 2>/dev/null; cgroup=""; }
headroom=auto
[[ -z $cgroup ]] || headroom=64MiB
cat >"$work/andiron.toml" <<TOML
[agent]
allow_roots = ["$(dirname "$file")"]
[budget]
ram = "90%"
ram_headroom = "$headroom"

[[model]]
name = "demo"
source = "$file"
hold = "mapped"
TOML
cat "$work/andiron.toml"
(
  enter
  exec andirond --config "$work/andiron.toml" --runtime-dir "$work/run" --state-dir "$work/state" \
    --log-level warning
) 2>"$work/agent.log" &
agent=$!
for _ in $(seq 100); do
  andironctl status >/dev/null 2>&1 && break
  kill -0 "$agent" 2>/dev/null || { cat "$work/agent.log" >&2; exit 1; }
  sleep 0.1
done

say "4. Cold: nothing of it is in memory, as after a quiet night"
make_cold
andironctl drop demo >/dev/null
sleep 2 # a virtual machine takes a moment to give freed pages back to its host
cold=$(read_time)
echo "reading it took $(seconds "$cold")"

say "5. Warm: andironctl warm demo"
andironctl drop demo >/dev/null
sleep 2
andironctl warm demo
warm=$(read_time)
echo "reading it takes $(seconds "$warm") now, against $(seconds "$cold") cold"
andironctl status

if [[ -n $cgroup ]]; then
  say "6. A memory hog of $(((limit - size / 4) >> 20)) MiB takes the memory that the model lies in"
  last=$(andironctl --json events 2>/dev/null | tail -1 | sed -nE 's/.*"seq":([0-9]+).*/\1/p')
  (
    enter
    exec python3 -c "
import sys, time
block = bytearray($((limit - size / 4)))
for i in range(0, len(block), 4096):
    block[i] = 1
time.sleep(4)"
  ) || echo "(the hog ended early)"
  andironctl events --since "${last:-0}"
  andironctl explain demo

  say "7. The hog is gone: warm it again"
  andironctl warm demo
  echo "reading it takes $(seconds "$(read_time)")"
else
  say "6. Left out: a memory hog that squeezes the model out needs root, for a memory cgroup"
fi

say "Done. Next: sudo build/release/bin/andironctl setup proposes a configuration for this machine."
