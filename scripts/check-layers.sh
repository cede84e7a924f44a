#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check-layers.sh: every #include of a file in agent/ is of its own folder or of a lower layer.
# The layers are those that agent/*/CMakeLists.txt give to andiron_layer().
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A layer
for list in agent/*/CMakeLists.txt; do
  read -r name number < <(sed -nE 's/^andiron_layer\(([a-z]+) LAYER ([0-9]+).*/\1 \2/p' "$list")
  layer[$name]=$number
done

bad=0
while IFS=: read -r file line include; do
  from=$(cut -d/ -f2 <<<"$file")
  to=$(sed -nE 's|.*"agent/([a-z]+)/.*|\1|p' <<<"$include")
  [[ -n $to && $to != "$from" ]] || continue
  if [[ -z ${layer[$from]:-} || -z ${layer[$to]:-} ]] || ((layer[$to] >= layer[$from])); then
    echo "$file:$line: $from (layer ${layer[$from]:-?}) includes $to (layer ${layer[$to]:-?})" >&2
    bad=1
  fi
done < <(grep -rnE '^#include "agent/' agent --include='*.cpp' --include='*.hpp')
if [[ $bad -eq 0 ]]; then echo "layers: fine"; fi
exit $bad
