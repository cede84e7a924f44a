#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test.sh [--fuzz] [--vm] [--only LABEL]: installs what is missing, builds, and runs every test
# that this machine allows: checks of the sources, then unit, component, root and e2e tests on the
# release build, unit and component tests under AddressSanitizer with UBSan and ThreadSanitizer, and
# each fuzz target for a few seconds (for a minute with --fuzz); with --vm also those that boot a
# Debian system under qemu. A skip prints its reason. --only LABEL runs just those tests of the
# release build.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

fuzz_seconds=5
vm=no
only=""
while [[ $# -gt 0 ]]; do
  case $1 in
    --fuzz) fuzz_seconds=60 ;;
    --vm) vm=yes ;;
    --only) only=${2:?--only needs a label}; shift ;;
    -h | --help) sed -n '4,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: what is '$1'? See --help" >&2; exit 2 ;;
  esac
  shift
done

passed=0
failed=0
skipped=0
failures=()
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

say() { printf '\n== %s\n' "$*"; }
summary() {
  [[ ${#failures[@]} -eq 0 ]] || printf '\nfailed: %s\n' "${failures[*]}"
  printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [[ $failed -eq 0 ]]
}

# step NAME COMMAND...: one check, counted; status 77 is a skip.
step() {
  local name=$1 status=0
  shift
  "$@" || status=$?
  case $status in
    0) ((passed += 1)) ;;
    77) ((skipped += 1)); echo "skipped: $name" ;;
    *) ((failed += 1)); failures+=("$name"); echo "FAILED: $name (status $status)" ;;
  esac
}

# need COMMAND...: without it nothing after makes sense.
need() {
  "$@" && return
  ((failed += 1)); failures+=("$*")
  summary
  exit 1
}

# count FILE ATTRIBUTE: of a JUnit report's testsuite.
count() { sed -nE "s/.*[[:space:]]$2=\"([0-9]+)\".*/\1/p" "$1" | head -1; }

# tests PRESET LABELS: CTest on a build; each test is counted.
tests() {
  local preset=$1 labels=$2 report=$logs/$1.xml all bad missed
  ctest --test-dir "build/$preset" -L "^($labels)\$" --output-on-failure --output-junit "$report" \
    --test-output-size-passed 200000 >"$logs/$preset.log" 2>&1
  grep -vE '^ *(Start|Internal ctest|[0-9]+/[0-9]+ Test.*Passed)' "$logs/$preset.log" | head -600
  all=$(count "$report" tests)
  bad=$(count "$report" failures)
  missed=$(count "$report" skipped)
  if [[ -z $all || $all -eq 0 ]]; then
    ((failed += 1)); failures+=("$preset: no test ran")
    return
  fi
  python3 scripts/skip-reasons.py "$report"
  ((failed += bad)); ((skipped += missed)); ((passed += all - bad - missed))
  [[ $bad -eq 0 ]] || failures+=("$preset: $bad")
}

fuzz() {
  local target=$1 name work
  name=$(basename "$target")
  work=$(mktemp -d "$logs/corpus.XXXX")
  local corpora=("$work")
  [[ -d tests/fuzz/corpus/$name ]] && corpora+=("tests/fuzz/corpus/$name")
  # A parser that allocates what a header tells it to dies of the RSS limit.
  "$target" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=512 \
    -artifact_prefix="$logs/" "${corpora[@]}" >"$logs/fuzz.log" 2>&1 || {
    tail -40 "$logs/fuzz.log"
    return 1
  }
  echo "$name: $(grep -oE 'Done [0-9]+ runs in [0-9]+ second' "$logs/fuzz.log")"
}

[[ $only != vm ]] || vm=yes

say "packages and the release build"
need scripts/install-packages.sh build test fuzz
# Where systemd runs, the package would start a dockerd for everybody: that is the owner's to decide.
[[ -d /run/systemd/system ]] || scripts/install-packages.sh docker || true
[[ $vm == no ]] || scripts/install-packages.sh vm || true # without them the tests say so, and skip
scripts/install-packages.sh format || true # clang-format 14 is not in every release
need env ANDIRON_TESTS=ON scripts/build.sh release

if [[ -n $only ]]; then
  tests release "$only"
  summary
  exit
fi

say "checks of the sources"
step "layers" scripts/check-layers.sh
step "format" scripts/check-format.sh
step "shell scripts" shellcheck -x scripts/*.sh .ci/run packaging/debian/{,python/}{postinst,prerm} \
  packaging/debian/postrm
step "headers stand alone" cmake --build build/release --target all_verify_interface_header_sets

say "tests on the release build"
tests release "unit|component|root|e2e"

if [[ $vm == yes ]]; then
  say "a Debian system under qemu"
  tests release vm
fi

for preset in asan tsan; do
  say "unit and component tests under $preset"
  need scripts/build.sh "$preset"
  tests "$preset" "unit|component"
done

say "fuzz targets, $fuzz_seconds s each"
need scripts/build.sh fuzz
for target in build/fuzz/tests/fuzz/fuzz_*; do
  if [[ -x $target && -f $target ]]; then step "$(basename "$target")" fuzz "$target"; fi
done

summary
