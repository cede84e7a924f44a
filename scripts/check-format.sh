#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check-format.sh [--fix]: clang-format 14 agrees with every C and C++ file of ours. Other versions
# format otherwise, so without that one it exits with 77, a skip.
set -euo pipefail
cd "$(dirname "$0")/.."

tool=""
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q ' 14\.'; then
    tool=$candidate
    break
  fi
done
[[ -n $tool ]] || { echo "skip: clang-format 14 is not here"; exit 77; }

mapfile -t files < <(git ls-files '*.cpp' '*.hpp' '*.c' '*.h')
if [[ ${1:-} == --fix ]]; then
  "$tool" -i "${files[@]}"
else
  "$tool" --dry-run --Werror "${files[@]}" && echo "format: fine"
fi
