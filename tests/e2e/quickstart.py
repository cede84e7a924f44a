#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The README's first command shows what it promises, and leaves nothing behind."""
import os
import re
import subprocess

from harness import MIB, main, write_gguf

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/quickstart.sh")


def shows_cold_and_warm_and_cleans_up(build, folder):
    path = folder / "my model.gguf"
    write_gguf(path, 256 * MIB)
    before = os.path.getmtime(path)
    done = subprocess.run([SCRIPT, path], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "ANDIRON_BIN": os.path.join(build, "bin"),
                               "TMPDIR": folder.path})
    assert done.returncode == 0, done.stdout + done.stderr
    times = re.search(r"reading it takes (\d+\.\d+) s now, against (\d+\.\d+) s cold", done.stdout)
    assert times, done.stdout
    assert "256 MiB of 256 MiB resident, mapped" in done.stdout, done.stdout
    if os.geteuid() == 0 and "6. Left out" not in done.stdout:
        assert "model.evicted demo" in done.stdout, done.stdout
        assert done.stdout.count("demo: warm, 256 MiB of 256 MiB") == 2, done.stdout
    assert os.listdir(folder.path) == ["my model.gguf"] and os.path.getmtime(path) == before
    left = subprocess.run(["pgrep", "-f", f"andirond --config {folder.path}"]).returncode
    assert left == 1, "an agent is still there"


def names_a_file_that_is_not_there(build, folder):
    done = subprocess.run([SCRIPT, folder / "none"], capture_output=True, text=True)
    assert done.returncode == 2 and "cannot read" in done.stderr, done


main([shows_cold_and_warm_and_cleans_up, names_a_file_that_is_not_there])
