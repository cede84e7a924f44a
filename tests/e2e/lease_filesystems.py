#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What clients get by a lease is the file's bytes, whatever file system it lies on and whatever its size: through
the C library, the Python package, numpy, and safe_open in place of that of safetensors; and the file stays cold."""
import hashlib
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support"), os.path.join(HERE, "../../client/python")]
import interpreter

HAS_NUMPY = interpreter.find("numpy")

import andiron
import andiron.safetensors
from filesystems import on_each_disk, overlay
from harness import MIB, Agent, main, make_cold, mincore_resident, own_namespace, until
from lease_wire import lease_path
from pinned_filesystems import sha256
from safetensors_file import safetensors_bytes

SIZES = (4095, 4096, 4097, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 40 * MIB + 5)


def write_weights(path, size):
    """A safetensors file of that very size: its one tensor takes what its header leaves."""
    header = 160
    data = os.urandom(size - header)
    def content(padding):
        return safetensors_bytes({"w": ("U8", [len(data)], data)}, padding=padding)
    whole = content(header + len(data) - len(content(0)))
    assert len(whole) == size, (len(whole), size)
    with open(path, "wb") as file:
        file.write(whole)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def digest(data):
    return hashlib.sha256(data).hexdigest()


def by_the_library(build, socket, name, out):
    os.makedirs(out, exist_ok=True)
    subprocess.run([os.path.join(build, "tests/component/client/lease_probe"), socket, name, "0",
                    "60000", out], check=True, capture_output=True, timeout=120)
    return sha256(os.path.join(out, "segment-0"))


def exercise(build, folder, root):
    print(f"   {root}", flush=True)
    paths = {f"{size}": os.path.join(root, f"{size}.safetensors") for size in SIZES}
    tensors = {}
    for size in SIZES:
        path = paths[f"{size}"]
        tensors[f"{size}"] = write_weights(path, size)
    files = {name: sha256(path) for name, path in paths.items()}
    text = '[budget]\nram = "512MiB"\nram_headroom = "1GiB"\n'
    for name, path in paths.items():
        text += f'[[model]]\nname = "m{name}"\nsource = "{path}"\n'
    with Agent(build, folder, text) as agent:
        socket = os.environ["ANDIRON_LEASE_SOCKET"] = lease_path(agent)
        for name, path in paths.items():
            make_cold(path)
            agent.ctl("warm", "m" + name, "--tier", "pinned-ram")
        for name, path in paths.items():
            assert by_the_library(build, socket, "m" + name, folder / "out") == files[name], name
            with andiron.lease("m" + name) as lease:
                assert digest(lease.segments[0].data) == files[name], name
                assert digest(lease.tensors["w"].data) == tensors[name], name
                if HAS_NUMPY:
                    assert digest(lease.tensors["w"].numpy()) == tensors[name], name
            with andiron.safetensors.safe_open(path, framework="np") as file:
                assert file.leased, name
                if HAS_NUMPY:
                    assert digest(file.get_tensor("w")) == tensors[name], name
            # Its header, which safe_open may read to know it, is within the first page.
            assert mincore_resident(path) <= 4096, (name, mincore_resident(path))
        until("all leases to end",
              lambda: agent.get("/v1/status")["tiers"]["pinned-ram"]["leases"] == 0)
        agent.stop()


def overlayfs(build, folder):
    os.makedirs(folder / "lower")
    with overlay(folder, "over", folder / "lower") as point:
        if point:
            exercise(build, folder, point)


if __name__ == "__main__":
    own_namespace()
    if not HAS_NUMPY:
        print("without numpy, which is not there: its arrays are not compared")
    main([*on_each_disk(exercise), overlayfs])
