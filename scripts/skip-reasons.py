#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints each skipped test of a CTest JUnit report with the last lines that it printed, each
GoogleTest case that skipped itself inside a test that passed, and each check of tests/vm with its
time."""
import re
import sys
import xml.etree.ElementTree as xml

for case in xml.parse(sys.argv[1]).getroot().iter("testcase"):
    output = (case.findtext("system-out") or "").strip().splitlines()
    if case.find("skipped") is not None:
        reason = " | ".join(line.strip() for line in output[-3:]) or "no reason printed"
        print(f"skipped: {case.get('name')}: {reason}")
        continue
    for line in output:
        if re.match(r"(pass|skip|made|boot) +[0-9.]+ s  ", line):
            print(line)
    for before, line in zip([""] + output, output):
        if line.startswith("[  SKIPPED ]") and "(" in line:
            print(f"skipped case: {line.removeprefix('[  SKIPPED ]').strip()}: {before.strip()}")
