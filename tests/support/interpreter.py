# SPDX-License-Identifier: MIT
"""Which Python runs a test: the distribution's own packages are the distribution's own interpreter's, and another
one may come first in PATH."""
import importlib.util
import os
import subprocess
import sys

DISTRIBUTION = "/usr/bin/python3"


def find(module):
    """Whether this interpreter has the module; goes on with the distribution's where only that one has."""
    if importlib.util.find_spec(module) is not None:
        return True
    if os.path.realpath(sys.executable) != os.path.realpath(DISTRIBUTION) and subprocess.run(
            [DISTRIBUTION, "-c", f"import {module}"], capture_output=True).returncode == 0:
        os.execv(DISTRIBUTION, [DISTRIBUTION, *sys.argv])
    return False
