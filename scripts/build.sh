#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# build.sh [PRESET]: installs what is missing and builds; the release build, in build/release,
# unless another preset is named (dev, asan, tsan, fuzz).
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '4,5s/^# \{0,1\}//p' "$0"; }
case ${1:-release} in
  -h | --help) usage; exit 0 ;;
  release | dev | asan | tsan | fuzz) preset=${1:-release} ;;
  *) usage >&2; exit 2 ;;
esac

packages=(build)
# The release build that a user wants has no tests; scripts/test.sh asks for them.
case $preset in
  release) tests=${ANDIRON_TESTS:-OFF} ;;
  fuzz) tests=OFF; packages+=(fuzz) ;;
  *) tests=ON ;;
esac
[[ $tests == ON ]] && packages+=(test)

scripts/install-packages.sh "${packages[@]}"
if command -v ccache >/dev/null; then
  # Every clone of the sources finds what another one compiled.
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache}
fi

# One compiler takes up to 1 GiB here: a small machine gets fewer jobs.
jobs=$(nproc)
by_memory=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
((by_memory >= 1)) || by_memory=1
((jobs <= by_memory)) || jobs=$by_memory

echo "Building $preset in build/$preset, $jobs at a time (a few minutes the first time)"
mkdir -p "build/$preset"
cmake --preset "$preset" -DANDIRON_TESTS="$tests" >"build/$preset/configure.log" 2>&1 || {
  cat "build/$preset/configure.log" >&2
  exit 1
}
cmake --build --preset "$preset" -j "$jobs"
