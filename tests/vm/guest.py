# SPDX-License-Identifier: MIT
"""Runs the checks of this boot inside the guest, and reports each on the second serial line.

The kernel's command line names the boot (andiron.boot=NAME). A report is one JSON object a line:
{"check", "result": "pass"|"fail"|"skip", "seconds", "why", "output"}; the last is {"end": true}.
"""
import json
import os
import sys
import time
import traceback
import tty

from system import Skip, sh

REPORTS = "/dev/ttyS1"


class Reports:
    def __init__(self):
        self.line = os.open(REPORTS, os.O_WRONLY | os.O_NOCTTY)
        tty.setraw(self.line)

    def write(self, **report):
        left = json.dumps(report).encode() + b"\n"
        while left:
            left = left[os.write(self.line, left):]


def boot_name():
    with open("/proc/cmdline") as file:
        for word in file.read().split():
            if word.startswith("andiron.boot="):
                return word.partition("=")[2]
    raise AssertionError("the kernel's command line names no boot")


def evidence():
    """What a failure is looked into with."""
    return "\n".join(
        sh(*command, check=False) for command in (
            ["systemctl", "status", "--no-pager", "--lines=0", "andirond.service",
             "andiron-*.service", "vm-reader.service"],
            ["journalctl", "-b", "--no-pager", "-n", "60", "-o", "short-monotonic"]))


def run_check(reports, name, function):
    begin = time.monotonic()
    result, why, output = "pass", "", ""
    try:
        output = function() or ""
    except Skip as reason:
        result, why = "skip", str(reason)
    except Exception as error:  # whatever it is, the report must get out
        result, why = "fail", f"{type(error).__name__}: {error}"
        output = traceback.format_exc() + evidence()
    reports.write(check=name, result=result, seconds=round(time.monotonic() - begin, 1), why=why,
                  output=output)


def main():
    reports = Reports()
    try:
        import checks  # here, so that an error in it is reported too
        chosen = checks.BOOTS[boot_name()]
        # Jobs of the boot may still run; the first check of a boot starts where a user would.
        sh("systemctl", "is-system-running", "--wait", check=False, seconds=180)
        for function in chosen:
            run_check(reports, function.__doc__, function)
        reports.write(end=True)
    except Exception:
        reports.write(check="the checks themselves", result="fail", seconds=0, why="",
                      output=traceback.format_exc())
    finally:
        sh("systemctl", "poweroff", "--no-block", check=False)


if __name__ == "__main__":
    sys.exit(main())
