# SPDX-License-Identifier: MIT
"""Both clients, the C library and the Python package, as one test sees them."""
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1])
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "../../support"), os.path.join(HERE, "../../../client/python")]
import andiron
import interpreter

# What ends a client that hangs.
HANGS = 60
# How long a client waits for a peer that answers, and for one that does not.
TIMEOUT = 30
SHORT = 0.3


class Folder:
    """For sockets and files, away at the end."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="andiron-client-")
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def __truediv__(self, name):
        return os.path.join(self.folder.name, name)


def probe(path, model, *more, wait=0, timeout=TIMEOUT, **kwargs):
    """The lines that the C client prints."""
    done = subprocess.run([os.path.join(BUILD, "tests/component/client/lease_probe"), path, model,
                           str(int(wait * 1000)), str(int(timeout * 1000)), *more],
                          capture_output=True, text=True, timeout=HANGS, **kwargs)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


def c_code(path, timeout=TIMEOUT, model="m"):
    """How the C client's try ends: "granted", or the error's code, after "tensors " where the lease came, and
    its tensors made no sense."""
    with tempfile.TemporaryDirectory() as folder:
        lines = probe(path, model, folder, timeout=timeout)
    assert lines[-1] == "left 0 0", lines
    if lines[0].startswith("error "):
        return lines[0].split()[1]
    bad = [line.split()[2] for line in lines if line.startswith("tensors error ")]
    return f"tensors {bad[0]}" if bad else "granted"


def python_code(path, timeout=TIMEOUT, model="m"):
    """The same of the Python client."""
    try:
        with andiron.lease(model, socket=path, timeout=timeout) as lease:
            for segment in lease.segments:
                bytes(segment.data)
            code = tensors_code(lease)
            assert tensors_code(lease) == code, "it stays"
            return "granted" if code is None else f"tensors {code}"
    except andiron.Error as error:
        return code_of(error)


def tensors_code(lease):
    try:
        for tensor in lease.tensors.values():
            bytes(tensor.data)
    except andiron.Error as error:
        return code_of(error)
    return None


def code_of(error):
    assert error.message and str(error).startswith(error.code), error
    return error.code


def skip(reason):
    print(reason)
    sys.exit(77)


def need(module):
    if not interpreter.find(module):
        skip(f"needs {module} for Python")


def until(check):
    """Waits for check() to give something true. No test asserts how long that takes."""
    end = time.monotonic() + HANGS
    while not check():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def shared_mappings():
    with open("/proc/self/maps") as file:
        return sum(" r--s " in line for line in file)


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


def main(tests):
    only = sys.argv[2:]
    for test in tests:
        if only and test.__name__ not in only:
            continue
        print(f"-- {test.__name__}", flush=True)
        with Folder() as folder:
            test(folder)
    print("all passed")
