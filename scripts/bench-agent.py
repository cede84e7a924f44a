#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench-agent.py BUILD FOLDER: the targets of the agent as a whole. 100 models with 1,000 files: what
memory it takes of its own, and how long GET /v1/status takes for 64 clients while a warm runs.
Nine rounds, medians; each figure with its target."""
import os
import re
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))
from harness import GIB, MIB, Agent, Folder, make_cold, until, write_gguf  # noqa: E402

ROUNDS = 9
MODELS = 100
FILES_EACH = 10


def config(folder):
    text = f'[agent]\nallow_roots = ["{folder.path}"]\n[stream]\nmax_bandwidth = "64MiB"\n'
    for i in range(MODELS):
        text += f"""
[[model]]
name = "m{i:03}"
source = "{folder / f'm{i:03}'}"
preload = "boot"
"""
    return text + f'\n[[model]]\nname = "big"\nsource = "{folder / "big.gguf"}"\n'


def line(what, value, target, met):
    print(f"{what:<62} {value:>12} {target:>12}  {'met' if met else 'NOT MET'}")


def main():
    build, where = os.path.abspath(sys.argv[1]), sys.argv[2]
    os.environ["ANDIRON_TEST_DIR"] = os.path.abspath(where)
    load = os.path.join(build, "tests/bench/api_load")
    with Folder() as folder:
        for i in range(MODELS):
            os.mkdir(folder / f"m{i:03}")
            for j in range(FILES_EACH):
                write_gguf(os.path.join(folder / f"m{i:03}", f"{j}.gguf"), 64 * 1024)
        write_gguf(folder / "big.gguf", GIB)
        with Agent(build, folder, config(folder)) as agent:
            def all_warm():
                models = agent.get("/v1/models")["models"]
                return all(m["state"] == "warm" for m in models if m["name"] != "big")
            until("all models to be warm", all_warm, 300)
            p99s, medians = [], []
            for _ in range(ROUNDS):
                agent.ctl("drop", "big")
                make_cold(folder / "big.gguf")
                agent.call("POST", "/v1/models/big/warm", {})  # about 16 s at this rate
                until("it to read", lambda: agent.get("/v1/jobs")["jobs"][-1]["state"] == "running")
                out = subprocess.run([load, agent.socket, "/v1/status", "64", "100"], check=True,
                                     capture_output=True, text=True).stdout
                assert agent.get("/v1/jobs")["jobs"][-1]["state"] == "running", "the warm ended early"
                medians.append(int(re.search(r"p50_us=(\d+)", out)[1]) / 1000)
                p99s.append(int(re.search(r"p99_us=(\d+)", out)[1]) / 1000)
            anonymous = agent.status_field("RssAnon")
            print(f"\n{'the agent, 101 models with 1,001 files':<62} {'measured':>12} {'target':>12}")
            p99 = statistics.median(p99s)
            line(f"GET /v1/status, 64 clients, a warm runs: p99 (p50 "
                 f"{statistics.median(medians):.1f} ms)", f"{p99:.1f} ms", "< 5 ms", p99 < 5)
            line("memory of its own (RssAnon)", f"{anonymous / MIB:.1f} MiB", "<= 40 MB",
                 anonymous <= 40_000_000)


main()
