#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# vm-test.sh [KERNEL...]: boots Debian 12 under qemu with each of these kernels (6.1 and 6.12, where
# none is named), installs Andiron there and checks it under its systemd; installs what is missing
# and builds first. Needs root, Debian 12 and its mirror; exits with 77, and says why, where one is
# not there. The guests' consoles stay in build/vm/KERNEL.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  -h | --help) sed -n '4,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
[[ $# -gt 0 ]] || set -- 6.1 6.12

scripts/install-packages.sh vm
[[ -x build/release/bin/andirond ]] || scripts/build.sh release

status=77
for kernel in "$@"; do
  this=0
  tests/vm/vm.py build/release "$kernel" || this=$?
  case $this in
    77) ;;
    0) [[ $status -ne 77 ]] || status=0 ;;
    *) status=$this ;;
  esac
done
exit "$status"
