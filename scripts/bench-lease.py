#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench-lease.py BUILD FOLDER: how long it takes to attach to a lease: from connect(2) to the first
byte of a tensor, mapped, for a model of 100 MiB and one of 8 GiB. Nine rounds of 20 each, medians. What
has to be in memory for it is there already."""
import os
import statistics
import struct
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))
from harness import GIB, MIB, Agent, Folder, meminfo, until  # noqa: E402
from lease_wire import Connection, lease_path  # noqa: E402
from pinned import own_namespace  # noqa: E402

ROUNDS = 9
EACH = 20
TENSORS = 300
TARGET_MS = 10


def sparse_gguf(path, size):
    """As many tensors as a model of that kind has, of nothing: its blocks need no room."""
    each = (size // TENSORS) // 4096 * 1024  # elements
    header = b"GGUF" + struct.pack("<IQQ", 3, TENSORS, 0)
    for i in range(TENSORS):
        name = f"blk.{i}.weight".encode()
        header += struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, each, 0, i * each * 4)
    header += b"\0" * (-len(header) % 32)
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(len(header) + TENSORS * each * 4)


def attach(agent, model):
    begin = time.monotonic()
    with Connection(lease_path(agent)) as client:
        lease = client.lease(model)
        with lease.segment() as mapping:
            tensor = lease.index["tensors"][TENSORS // 2]
            assert mapping[tensor["offset"]] == 0
            took = time.monotonic() - begin
        lease.close()
    return took * 1e3


def main():
    build = os.path.abspath(sys.argv[1])
    os.environ["ANDIRON_TEST_DIR"] = os.path.abspath(sys.argv[2])
    models = {"100MiB": 100 * MIB, "8GiB": 8 * GIB}
    if meminfo("MemAvailable") < 12 * GIB:
        print("attach to a lease on 8 GiB: not measured, since less than 12 GiB of memory are free")
        del models["8GiB"]
    with Folder() as folder:
        text = '[budget]\nram = "90%"\nram_headroom = "1GiB"\n'
        for name, size in models.items():
            path = folder / f"{size}.gguf"
            sparse_gguf(path, size)
            text += f'[[model]]\nname = "{name}"\nsource = "{path}"\n'
        with Agent(build, folder, text) as agent:
            for name in models:
                agent.ctl("warm", name, "--tier", "pinned-ram")
                until("the lease's index", lambda: attach(agent, name))
            times = {name: [] for name in models}
            for _ in range(ROUNDS):
                for name, kept in times.items():
                    kept.append(statistics.median(attach(agent, name) for _ in range(EACH)))
            agent.stop()
    for name, kept in times.items():
        value = statistics.median(kept)
        print(f"{'attach to a lease, ' + name + ' (rounds: ' + spread(kept) + ')':<62} "
              f"{value:>9.2f} ms {f'< {TARGET_MS} ms':>12}  "
              f"{'met' if value < TARGET_MS else 'NOT MET'}")


def spread(kept):
    return f"{min(kept):.2f} to {max(kept):.2f}"


if __name__ == "__main__":
    own_namespace()
    main()
