#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The agent inside a memory cgroup, and without the right to lock."""
import os
import subprocess
import sys

from harness import (MIB, Agent, main, make_cold, need_root, pages, resident, skip, until,
                     write_gguf)

HOG = """
import mmap, sys
block = mmap.mmap(-1, int(sys.argv[1]))
for at in range(0, len(block), 4096):
    block[at] = 1
print("full", flush=True)
sys.stdin.read()
"""


class MemoryGroup:
    """A memory cgroup of the test's own: v2 where the memory controller is there, else v1."""

    def __init__(self, limit):
        self.v2 = False
        v2 = "/sys/fs/cgroup"
        if os.path.exists(v2 + "/cgroup.controllers"):
            with open(v2 + "/cgroup.controllers") as file:
                self.v2 = "memory" in file.read().split()
        base = v2 if self.v2 else "/sys/fs/cgroup/memory"
        if not os.path.isdir(base) or not (self.v2 or os.path.exists(base + "/memory.stat")):
            skip("needs the cgroup controller for memory, and none is mounted")
        if self.v2:
            try:
                with open(base + "/cgroup.subtree_control", "w") as file:
                    file.write("+memory")
            except OSError as failure:
                skip(f"needs a memory cgroup of its own: {failure}")
        self.path = f"{base}/andiron-e2e-{os.getpid()}"
        try:
            os.mkdir(self.path)
        except OSError as failure:
            skip(f"needs a memory cgroup of its own: {failure}")
        self.set_limit(limit)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        until("the cgroup to be empty", lambda: not open(self.path + "/cgroup.procs").read())
        os.rmdir(self.path)

    def set_limit(self, limit):
        with open(f"{self.path}/{'memory.max' if self.v2 else 'memory.limit_in_bytes'}",
                  "w") as file:
            file.write(str(limit))

    def usage(self):
        with open(f"{self.path}/{'memory.current' if self.v2 else 'memory.usage_in_bytes'}") as f:
            return int(f.read())

    def wrap(self, *command):
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh", *command]


def config(folder, budget="80%", headroom="64MiB", low="cached", sizes=()):
    text = f"""
[agent]
allow_roots = ["{folder.path}"]
[budget]
ram = "{budget}"
ram_headroom = "{headroom}"
"""
    for name, priority, boot in sizes:
        text += f"""
[[model]]
name = "{name}"
source = "{folder / name}.gguf"
priority = "{priority}"
{'preload = "boot"' if boot else ''}
"""
    return text


HIGH_AND_LOW = (("high", "interactive", True), ("low", "background", True))


def make(folder, name, size):
    write_gguf(folder / (name + ".gguf"), size)
    make_cold(folder / (name + ".gguf"))


def hold(agent, name):
    return agent.model(name)["tiers"]["page-cache"]["hold"]


def held(agent, name):
    model = agent.model(name)
    return model["state"] == "warm" and model["tiers"]["page-cache"]["hold"] == "mapped"


def the_limit_is_the_cgroups(build, folder):
    make(folder, "small", 64 * MIB)
    make(folder, "big", 300 * MIB)
    models = (("small", "normal", False), ("big", "normal", False))
    with MemoryGroup(512 * MIB) as group:
        text = config(folder, "50%", sizes=models)
        with Agent(build, folder, text, wrap=group.wrap()) as agent:
            status = agent.get("/v1/status")
            assert status["memory"]["limit_bytes"] == 512 * MIB, status["memory"]
            assert os.path.basename(group.path) in status["memory"]["limited_by"], status["memory"]
            assert status["tiers"]["page-cache"]["budget_bytes"] == 256 * MIB, status["tiers"]
            assert status["memory"]["available_bytes"] <= 512 * MIB
            agent.ctl("warm", "small", "--hold", "locked", "--strict")
            done = agent.ctl("warm", "big", check=False)
            assert done.returncode == 1 and "no_budget" in done.stderr, done
            assert held(agent, "small") or hold(agent, "small") == "locked"
            # The budget would do, but the headroom would not be left.
            agent.configure(config(folder, "100%", "256MiB", sizes=models))
            agent.ctl("reload")
            done = agent.ctl("warm", "big", check=False)
            assert done.returncode == 1 and "no_headroom" in done.stderr, done
            assert hold(agent, "big") is None
            agent.configure(config(folder, "100%", "64MiB", sizes=models))
            agent.ctl("reload")
            agent.ctl("warm", "big")
            assert resident(folder / "big.gguf") == pages(os.path.getsize(folder / "big.gguf"))
            agent.stop()


def a_limit_that_shrinks(build, folder):
    make(folder, "high", 160 * MIB)
    make(folder, "low", 160 * MIB)
    with MemoryGroup(768 * MIB) as group:
        with Agent(build, folder, config(folder, sizes=HIGH_AND_LOW), wrap=group.wrap()) as agent:
            for name in ("high", "low"):
                until(f"{name} to be held", lambda: held(agent, name))
            assert group.usage() < 380 * MIB, group.usage()
            group.set_limit(380 * MIB)  # 80 % of it: one of the two
            until("the low one to be demoted", lambda: hold(agent, "low") == "cached")
            assert hold(agent, "high") == "mapped"
            said = agent.ctl("explain", "low").stdout
            assert "budget" in said and "priority" in said, said
            assert agent.get("/v1/status")["tiers"]["page-cache"]["budget_bytes"] == 304 * MIB
            group.set_limit(768 * MIB)
            until("the low one to be held again", lambda: held(agent, "low"), 120)
            agent.stop()


def a_hog_beside_it(build, folder):
    make(folder, "high", 128 * MIB)
    make(folder, "low", 128 * MIB)
    with MemoryGroup(512 * MIB) as group:
        with Agent(build, folder, config(folder, sizes=HIGH_AND_LOW), wrap=group.wrap()) as agent:
            for name in ("high", "low"):
                until(f"{name} to be held", lambda: held(agent, name))
            hog = subprocess.Popen(group.wrap(sys.executable, "-c", HOG, str(256 * MIB)),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            try:
                assert hog.stdout.readline() == b"full\n"
                until("the low one to be demoted", lambda: hold(agent, "low") == "cached")
                until("the high one to be held", lambda: held(agent, "high"))
                said = agent.ctl("explain", "low").stdout
                assert "memory free" in said, said
            finally:
                hog.kill()
                hog.wait()
            until("the low one to be held again", lambda: held(agent, "low"), 120)
            assert held(agent, "high")
            agent.stop()


def little_may_be_locked(build, folder):
    make(folder, "m", 16 * MIB)
    make(folder, "other", 16 * MIB)
    text = config(folder, headroom="1GiB",
                  sizes=(("m", "normal", False), ("other", "normal", False)))
    text = text.replace('name = "m"', 'name = "m"\nhold = "locked"')
    wrap = ["prlimit", f"--memlock={MIB}:{MIB}", "setpriv", "--bounding-set=-ipc_lock",
            "--inh-caps=-ipc_lock"]
    if subprocess.run(wrap + ["true"], capture_output=True).returncode != 0:
        print("left out, setpriv may not drop the right to lock here: little_may_be_locked")
        return
    with Agent(build, folder, text, wrap=wrap) as agent:
        with open(f"/proc/{agent.process.pid}/status") as file:
            capabilities = next(l for l in file if l.startswith("CapEff:")).split()[1]
        assert not int(capabilities, 16) >> 14 & 1, "the agent has CAP_IPC_LOCK all the same"
        done = agent.ctl("warm", "m")
        assert "lock_limit" in done.stderr, done
        model = agent.model("m")
        assert model["state"] == "warm", model
        locked = model["tiers"]["page-cache"]["locked_bytes"]
        assert locked <= MIB and locked == agent.smaps_locked(folder / "m.gguf"), locked
        assert "lock_limit" in agent.ctl("explain", "m").stdout
        done = agent.ctl("warm", "m", "--strict", check=False)
        assert done.returncode == 1 and "lock_limit" in done.stderr, done
        status, body = agent.call("POST", "/v1/models/m/warm", {"wait": True})
        assert status == 200 and body["warning"]["code"] == "lock_limit", body
        # It is not tried over and over again: somebody has to let go first.
        def jobs():
            return len(agent.get("/v1/jobs")["jobs"])
        until("the planner to have looked", lambda: agent.get("/v1/plan")["steps"])
        steps = agent.get("/v1/plan")["steps"]
        assert [step["kind"] for step in steps] == ["wait"], steps
        assert jobs() == 3, agent.get("/v1/jobs")
        # It is mapped as far as it is not locked, and the others do not mind.
        make_cold(folder / "m.gguf")
        assert resident(folder / "m.gguf") == pages(os.path.getsize(folder / "m.gguf"))
        agent.ctl("warm", "other", "--strict")
        assert held(agent, "other")
        agent.stop()


def protected_where_nothing_protects(build, folder):
    make(folder, "m", 16 * MIB)
    text = config(folder, headroom="1GiB", sizes=(("m", "normal", False),))
    text = text.replace("[budget]", '[budget]\nprotection = "off"')
    with Agent(build, folder, text) as agent:
        def capability():
            found = agent.get("/v1/doctor")["capabilities"]
            return [one for one in found if one["name"] == "protected-hold"]
        until("the capability to be known", capability)
        assert [one["state"] for one in capability()] == ["off"], capability()
        done = agent.ctl("warm", "m", "--hold", "protected")
        assert "lock_limit" in done.stderr and "falling back to mapped" in done.stderr, done
        assert hold(agent, "m") == "mapped"
        done = agent.ctl("warm", "m", "--hold", "protected", "--strict", check=False)
        assert done.returncode == 1 and "lock_limit" in done.stderr, done
        agent.stop()


def recharged_is_read_anew(build, folder):
    make(folder, "m", 16 * MIB)
    with Agent(build, folder, config(folder, headroom="1GiB",
                                     sizes=(("m", "normal", False),))) as agent:
        agent.ctl("warm", "m")
        agent.ctl("warm", "m")
        assert agent.model("m")["last_load"]["bytes"] == 0, agent.model("m")
        agent.ctl("warm", "m", "--recharge")
        loaded = agent.model("m")["last_load"]["bytes"]
        assert loaded == os.path.getsize(folder / "m.gguf"), loaded
        assert held(agent, "m")
        agent.stop()


need_root()
main([the_limit_is_the_cgroups, a_limit_that_shrinks, a_hog_beside_it, little_may_be_locked,
      protected_where_nothing_protects, recharged_is_read_anew])
