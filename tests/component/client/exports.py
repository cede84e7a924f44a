#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library shows its API and nothing else, and needs the C and C++ libraries and nothing else."""
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
LIBRARY = os.path.join(os.path.abspath(sys.argv[1]), "lib/libandiron.so")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


with open(os.path.join(ROOT, "client/include/andiron.h")) as file:
    declared = set(re.findall(r"^ANDIRON_API .*?\b(andiron_\w+)\(", file.read(), re.MULTILINE))
assert len(declared) > 10, declared
lines = output("nm", "--dynamic", "--defined-only", LIBRARY).splitlines()
shown = {line.split()[-1].split("@")[0] for line in lines} - {"ANDIRON_0"}
assert shown == declared, shown ^ declared
assert all("@@ANDIRON_0" in line for line in lines if "andiron_" in line), lines

dynamic = output("readelf", "--dynamic", LIBRARY)
assert "Library soname: [libandiron.so.0]" in dynamic, dynamic
needed = set(re.findall(r"Shared library: \[(.*?)\]", dynamic))
sanitized = any(name.startswith(("libasan", "libtsan", "libubsan")) for name in needed)
others = {name for name in needed
          if not re.match(r"(libc|libm|libgcc_s|libstdc\+\+|ld-linux[\w-]*)\.so\.", name)}
assert sanitized or not others, others
print("all passed")
