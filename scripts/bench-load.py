#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench-load.py BUILD FOLDER [PYTHON]: how long a Python program waits for a safetensors file of 1 GiB:
by a lease of andiron.safetensors, its source cold, and by the safetensors package, cold and warm; with
torch, and with runai-model-streamer, where PYTHON has them. Nine rotated rounds, medians, each load in
a process of its own. "loaded" is until load_file returns, "read" until every byte has been looked at.
Without PYTHON, numpy and safetensors are installed into a virtual environment below BUILD."""
import json
import os
import statistics
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(REPOSITORY, "tests", "e2e"))
from harness import MIB, Agent, Folder, make_cold, until  # noqa: E402
from lease_wire import lease_path  # noqa: E402
from pinned import own_namespace  # noqa: E402

ROUNDS = 9
TENSORS = 64
EACH = 16 * MIB
PAUSE = 4  # see bench-page-cache.py

PROGRAM = """
import sys, time
{imports}
begin = time.monotonic()
tensors = {load}
loaded = time.monotonic()
total = sum(int({array}.view("u8").sum() & 0xff) for t in tensors.values())
print(loaded - begin, time.monotonic() - begin, total)
"""
STREAMED = """
def stream(path):
    with SafetensorsStreamer() as streamer:
        streamer.stream_file(path)
        return dict(streamer.get_tensors())
"""
NUMPY, TORCH = "t.reshape(-1)", "t.reshape(-1).numpy()"
OURS = "import {0}\nfrom andiron.safetensors{1} import load_file"
THEIRS = "import {0}\nfrom safetensors.{0} import load_file"
RUNAI = "import torch\nfrom runai_model_streamer import SafetensorsStreamer" + STREAMED
LOAD = "load_file(sys.argv[1])"
# name: (needs, imports, load, a tensor as numpy's, the file is: cold or warm)
CONTENDERS = {
    "andiron.safetensors.numpy, leased": (
        "numpy", OURS.format("numpy", ".numpy"), LOAD, NUMPY, "cold"),
    "safetensors.numpy, cold": ("safetensors", THEIRS.format("numpy"), LOAD, NUMPY, "cold"),
    "safetensors.numpy, warm": ("safetensors", THEIRS.format("numpy"), LOAD, NUMPY, "warm"),
    "andiron.safetensors (torch), leased": ("torch", OURS.format("torch", ""), LOAD, TORCH, "cold"),
    "safetensors.torch, cold": ("torch", THEIRS.format("torch"), LOAD, TORCH, "cold"),
    "safetensors.torch, warm": ("torch", THEIRS.format("torch"), LOAD, TORCH, "warm"),
    "runai-model-streamer, cold": (
        "runai_model_streamer", RUNAI, "stream(sys.argv[1])", TORCH, "cold"),
    "runai-model-streamer, warm": (
        "runai_model_streamer", RUNAI, "stream(sys.argv[1])", TORCH, "warm"),
}


def interpreter(build):
    done = subprocess.run([os.path.join(REPOSITORY, "tests/support/pip_venv.sh"), build, "loaders", "numpy",
                           "safetensors"], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"loads in Python: not measured: {done.stdout.strip()} {done.stderr.strip()}")
        sys.exit(0)
    return done.stdout.strip().splitlines()[-1]


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def write_file(path):
    header = json.dumps({f"layer.{i}.weight": {"dtype": "F16", "shape": [EACH // 8192, 4096],
                                               "data_offsets": [i * EACH, (i + 1) * EACH]}
                         for i in range(TENSORS)}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for _ in range(TENSORS):
            file.write(os.urandom(EACH))
        file.flush()
        os.fsync(file.fileno())


def load(python, contender, path, environment):
    _, imports, call, array, state = CONTENDERS[contender]
    make_cold(path)
    if state == "warm":
        with open(path, "rb") as file:
            while file.read(MIB):
                pass
    else:
        time.sleep(PAUSE)
    text = PROGRAM.format(imports=imports, load=call, array=array)
    done = subprocess.run([python, "-c", text, path], check=True, capture_output=True, text=True,
                          env=environment).stdout.split()
    return float(done[0]), float(done[1]), int(done[2])


def main():
    build = os.path.abspath(sys.argv[1])
    os.environ["ANDIRON_TEST_DIR"] = os.path.abspath(sys.argv[2])
    python = sys.argv[3] if len(sys.argv) > 3 else interpreter(build)
    names = []
    for name, (needs, *_) in CONTENDERS.items():
        if has(python, needs):
            names.append(name)
        else:
            print(f"{name}: not measured, since {python} has no {needs}")
    with Folder() as folder:
        path = folder / "model.safetensors"
        write_file(path)
        text = f'[budget]\nram = "4GiB"\n[[model]]\nname = "m"\nsource = "{path}"\n'
        with Agent(build, folder, text) as agent:
            agent.ctl("warm", "m", "--tier", "pinned-ram")
            environment = {**os.environ, "ANDIRON_LEASE_SOCKET": lease_path(agent),
                           "PYTHONPATH": os.path.join(REPOSITORY, "client/python")}
            kept = {name: [] for name in names}
            for turn in range(ROUNDS):
                turn %= len(names)
                for name in names[turn:] + names[:turn]:
                    kept[name].append(load(python, name, path, environment))
            granted = agent.event_types("m").count("lease.granted")
            until("all leases to end", lambda: agent.get("/v1/status")["tiers"]["pinned-ram"]["leases"] == 0)
            agent.stop()
        leased = sum(1 for name in names if "leased" in name)
        assert granted == leased * ROUNDS, f"{granted} leases were granted, not {leased * ROUNDS}"
        sums = {total for rounds in kept.values() for _, _, total in rounds}
        assert len(sums) == 1, f"not all had the same bytes: {sums}"
    report(kept)


def report(kept):
    medians = {name: [statistics.median(each[i] for each in rounds) for i in (0, 1)]
               for name, rounds in kept.items()}
    base = medians[next(iter(medians))]
    print(f"{'a safetensors file of 1 GiB in Python':<40} {'loaded':>10} {'read':>10} {'read, ratio':>12}")
    for name, (loaded, read) in medians.items():
        print(f"{name:<40} {loaded * 1e3:>7.1f} ms {read * 1e3:>7.1f} ms {read / base[1]:>12.2f}")


if __name__ == "__main__":
    own_namespace()
    main()
