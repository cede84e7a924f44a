#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# package.sh: installs what is missing, builds, and makes the Debian packages in build/release, and
# prints their paths, that of the agent last. As root: apt install THAT; they are not signed.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  "") ;;
  -h | --help) sed -n '4,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "package.sh: what is '$1'? See --help" >&2; exit 2 ;;
esac

scripts/install-packages.sh package
scripts/build.sh release
cd build/release
rm -f andiron_*.deb libandiron*.deb python3-andiron_*.deb
umask 022 # the mode of the package's folders
cpack -G DEB >package.log 2>&1 || { cat package.log >&2; exit 1; }
ls "$PWD"/libandiron*.deb "$PWD"/python3-andiron_*.deb
ls "$PWD"/andiron_*.deb
