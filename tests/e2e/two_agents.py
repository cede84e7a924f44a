#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two agents of one machine, a package's and a container's say: one holds, the other caches, and
takes over when that one ends. Nobody but root can take part in that."""
import os
import shutil
import subprocess
import sys

from harness import MIB, Agent, Folder, main, make_cold, pages, resident, until, write_gguf
from machine_agent import MachineAgent, need_none

NOBODY = 65534


def config(path):
    return (f'[budget]\nram_headroom = "64MiB"\n'
            f'[[model]]\nname = "m"\nsource = "{path}"\nhold = "locked"\npreload = "boot"\n')


def model_in(folder):
    path = folder / "m.gguf"
    write_gguf(path, 16 * MIB)
    make_cold(path)
    return path


def until_hold(agent, hold):
    until(f"the model to be held as {hold}", lambda: agent.hold() == hold)


def locked(agent):
    return agent.model("m")["tiers"]["page-cache"]["locked_bytes"]


def who_comes_second_caches_only(build, folder):
    path = model_in(folder)
    size = os.path.getsize(path)
    with MachineAgent(build, folder, config(path)) as first, Folder() as other, \
            MachineAgent(build, other, config(path)) as second:
        until_hold(first, "locked")
        second.until_state("m", "warm")
        found = second.single()
        assert found["state"] == "degraded" and found["remedy"], found
        assert f"pid {first.pid()} " in found["reason"], (found, first.pid())
        assert second.hold() == "cached" and locked(second) == 0, second.model("m")
        # Asked for, it says why it is not what it should be.
        asked = second.ctl("warm", "m")
        assert "lock_limit" in asked.stderr and f"pid {first.pid()} " in asked.stderr, asked
        assert second.ctl("warm", "m", "--strict", check=False).returncode == 1
        assert second.hold() == "cached" and locked(second) == 0, second.model("m")
        assert "agent.degraded" in second.event_types()

        # The first is told, and does not care.
        until("the first to know", lambda: f"pid {second.pid()} " in first.single()["reason"])
        assert first.single()["state"] == "on", first.single()
        assert first.hold() == "locked" and locked(first) == size, first.model("m")

        first.kill()
        until_hold(second, "locked")
        assert locked(second) == size
        assert "pid" not in second.single()["reason"], second.single()
        first.start()  # and so is second now
        first.until_state("m", "warm")
        assert f"pid {second.pid()} " in first.single()["reason"], first.single()
        assert first.hold() == "cached" and second.hold() == "locked"
        assert resident(path) == pages(size)
        second.stop()
        first.stop()


def who_cannot_see_the_other_is_left_to_hold(build, folder):
    path = model_in(folder)
    size = os.path.getsize(path)
    with MachineAgent(build, folder, config(path)) as host, Folder() as other:
        until_hold(host, "locked")
        with MachineAgent(build, other, config(path), contained=True) as inner:
            until_hold(inner, "locked")
            assert "pid=host" in inner.single()["remedy"], inner.single()
            until_hold(host, "cached")
            assert locked(host) == 0 and locked(inner) == size
            found = host.single()
            assert found["state"] == "degraded", found
            assert f"pid {inner.pid()} " in found["reason"] and "cannot see" in found["reason"], found
            assert resident(path) == pages(size)
            inner.stop()
        until_hold(host, "locked")
        assert locked(host) == size
        host.stop()


def nobody_else_counts(build, folder):
    """Users' programs with that name, also a set-user-id one; and agents with a folder of their own."""
    path = model_in(folder)
    os.chmod(folder.path, 0o755)
    os.mkdir(folder / "bin")
    shutil.copy("/bin/sleep", folder / "bin/andirond")
    os.mkdir(folder / "link")
    os.symlink(shutil.which("su"), folder / "link/andirond")
    as_nobody = dict(user=NOBODY, group=NOBODY, extra_groups=[], stdin=subprocess.PIPE,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    impostors = [
        subprocess.Popen([folder / "bin/andirond", "1000"], **as_nobody),
        subprocess.Popen(["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child",
                          folder / "bin/andirond", "1000"], **as_nobody),
        subprocess.Popen([folder / "link/andirond"], **as_nobody)]  # waits for a password
    try:
        with open(f"/proc/{impostors[2].pid}/status") as file:
            print("the set-user-id one:", next(line for line in file if line.startswith("Uid")), end="")
        with Folder() as other, Agent(build, other, config(path)) as apart, \
                MachineAgent(build, folder, config(path)) as agent:
            # The one with namespaces is gone where users may not make them.
            assert impostors[0].poll() is None and impostors[2].poll() is None
            assert "pid" not in agent.single()["reason"], agent.single()
            until_hold(agent, "locked")
            apart.until_state("m", "warm")
            assert apart.model("m")["tiers"]["page-cache"]["hold"] == "locked", apart.model("m")
            found = next(c for c in apart.get("/v1/doctor")["capabilities"]
                         if c["name"] == "single-agent")
            assert found["state"] == "off" and "--runtime-dir" in found["reason"], found
            agent.stop()
    finally:
        for impostor in impostors:
            impostor.kill()
            impostor.wait()


need_none()
if shutil.which("unshare") is None:
    print("needs unshare")
    sys.exit(77)
main([who_comes_second_caches_only, who_cannot_see_the_other_is_left_to_hold, nobody_else_counts])
