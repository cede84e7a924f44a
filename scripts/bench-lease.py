#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench-lease.py BUILD FOLDER: how long it takes to attach to a lease: from connect(2) to the first
byte of a tensor, mapped, for a model of 100 MiB and one of 8 GiB; and through libandiron and the Python
package, to one of 100,000 tensors in 20 files, the first tensor apart: that is when they are read. Nine
rounds of 20 each (5 of the many tensors), medians. What has to be in memory for it is there already."""
import os
import statistics
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "tests", "e2e"), os.path.join(HERE, "..", "client", "python")]
import andiron  # noqa: E402
from harness import GIB, MIB, Agent, Folder, meminfo, until  # noqa: E402
from lease_wire import Connection, lease_path  # noqa: E402
from pinned import own_namespace  # noqa: E402

ROUNDS = 9
EACH = 20
TENSORS = 300
MANY = "100,000 tensors"
MANY_FILES = 20
MANY_EACH = 5000  # in a file
MANY_TIMES = 5
TARGET_MS = 10


def sparse_gguf(path, size, tensors=TENSORS, prefix=""):
    """As many tensors as a model of that kind has, of nothing: its blocks need no room."""
    each = (size // tensors) // 4096 * 1024  # elements
    header = b"GGUF" + struct.pack("<IQQ", 3, tensors, 0)
    for i in range(tensors):
        name = f"{prefix}blk.{i}.weight".encode()
        header += struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, each, 0, i * each * 4)
    header += b"\0" * (-len(header) % 32)
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(len(header) + tensors * each * 4)


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


def many_tensors(folder):
    """Each is a page."""
    os.mkdir(folder)
    for i in range(MANY_FILES):
        sparse_gguf(os.path.join(folder, f"many-{i + 1:05}-of-{MANY_FILES:05}.gguf"), MANY_EACH * 4096,
                    MANY_EACH, f"{i}.")


def by_library(build, agent, tensor):
    """(attach, first tensor) in milliseconds, medians."""
    out = subprocess.run([os.path.join(build, "tests/bench/lease_attach"), lease_path(agent), "many", tensor,
                          str(MANY_TIMES)], check=True, capture_output=True, text=True).stdout
    rows = [list(map(float, line.split()[:2])) for line in out.splitlines()]
    return [statistics.median(column) for column in zip(*rows)]


def by_package(agent, tensor):
    rows = []
    for _ in range(MANY_TIMES):
        begin = time.monotonic()
        lease = andiron.lease("many", socket=lease_path(agent))
        attached = time.monotonic()
        assert lease.tensors[tensor].data[0] == 0
        rows.append(((attached - begin) * 1e3, (time.monotonic() - attached) * 1e3))
        lease.close()
        del lease
    return [statistics.median(column) for column in zip(*rows)]


def measure_many(build, agent):
    tensor = f"{MANY_FILES // 2}.blk.{MANY_EACH // 2}.weight"
    agent.ctl("warm", "many", "--tier", "pinned-ram")
    clients = {"libandiron": lambda: by_library(build, agent, tensor),
               "Python": lambda: by_package(agent, tensor)}
    rounds = {name: [] for name in clients}
    for _ in range(ROUNDS):
        for name, measure in clients.items():
            rounds[name].append(measure())
    for name, kept in rounds.items():
        attaches, firsts = zip(*kept)
        report(f"attach, {MANY}, {name}", attaches, TARGET_MS)
        report("  its first tensor", firsts)


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
        many_tensors(folder / "many")
        text += f'[[model]]\nname = "many"\nsource = "{folder / "many"}"\n'
        with Agent(build, folder, text) as agent:
            for name in models:
                agent.ctl("warm", name, "--tier", "pinned-ram")
                until("the lease's index", lambda: attach(agent, name))
            times = {name: [] for name in models}
            for _ in range(ROUNDS):
                for name, kept in times.items():
                    kept.append(statistics.median(attach(agent, name) for _ in range(EACH)))
            for name, kept in times.items():
                report(f"attach to a lease, {name}", kept, TARGET_MS)
            measure_many(build, agent)
            agent.stop()


def report(what, kept, target=None):
    """A line of the median of the rounds, with the target where there is one."""
    value = statistics.median(kept)
    line = f"{f'{what} (rounds: {min(kept):.2f} to {max(kept):.2f})':<62} {value:>9.2f} ms"
    if target is not None:
        line += f" {f'< {target} ms':>12}  {'met' if value < target else 'NOT MET'}"
    print(line, flush=True)


if __name__ == "__main__":
    own_namespace()
    main()
