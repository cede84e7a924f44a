# SPDX-License-Identifier: MIT
"""Where build_package.py puts the package, and what the tests of it have in common."""
import glob
import os
import shutil
import subprocess
import sys

BUILD = os.path.abspath(sys.argv[1])
FOLDER = os.path.join(BUILD, "package")


def skip(reason):
    print(reason)
    sys.exit(77)


def need(*programs):
    if os.geteuid() != 0:
        skip("needs root")
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        skip(f"needs {', '.join(missing)}")


def package():
    (path,) = glob.glob(os.path.join(FOLDER, "andiron_*.deb"))
    return path


def output(*command, check=True):
    """What it prints, on both ways."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if check and done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout
