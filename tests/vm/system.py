# SPDX-License-Identifier: MIT
"""What the checks in the guest do with its systemd and its files."""
import os
import re
import subprocess


class Skip(Exception):
    """The check cannot be made with what is installed; the text says what is missing."""


def sh(*command, check=True, seconds=60):
    """Its output, both streams; a failure is an error that shows it."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def property_of(unit, name):
    return sh("systemctl", "show", "--value", "-p", name, unit).strip()


def has_unit(name):
    return "\n" in sh("systemctl", "list-unit-files", "--no-legend", name, check=False)


def seconds_of(text):
    """A time as systemctl shows it, "1min 30s", or as Andiron takes it, "5m"."""
    units = {"min": 60, "m": 60, "s": 1, "ms": 0.001, "h": 3600}
    parts = re.findall(r"(\d+)(min|ms|s|m|h)", text)
    assert parts, f"no deadline: {text}"
    return sum(int(number) * units[unit] for number, unit in parts)


def files():
    """All that is on the root disk, but for what every running system writes."""
    skip = ("/proc", "/sys", "/dev", "/run", "/srv", "/tmp", "/var/tmp", "/var/log", "/var/cache",
            "/var/lib/apt", "/var/lib/containers", "/var/lib/dpkg", "/var/lib/systemd", "/var/lib/vm-")
    found = []
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders
                      if not os.path.join(folder, name).startswith(skip)]
        found += [path for name in names
                  if not (path := os.path.join(folder, name)).startswith(skip)]
    return sorted(found)
