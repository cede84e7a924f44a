#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kill -9 at any moment, then a start: no stale socket in the way, what was held is held again."""
import os
import random
import subprocess

from harness import MIB, Agent, main, make_cold, pages, resident, until, write_gguf


def config(folder, preload=""):
    return f"""
[agent]
allow_roots = ["{folder.path}"]
[budget]
ram_headroom = "1GiB"
[[model]]
name = "m"
source = "{folder / 'm.gguf'}"
{preload}
[[model]]
name = "other"
source = "{folder / 'other.gguf'}"
"""


def held(agent, name):
    model = agent.model(name)
    return model["state"] == "warm" and model["tiers"]["page-cache"]["hold"] is not None


def what_was_held_is_held_again(build, folder):
    for name in ("m.gguf", "other.gguf", "adhoc.gguf"):
        write_gguf(folder / name, 16 * MIB)
    with Agent(build, folder, config(folder)) as agent:
        agent.ctl("warm", "m")
        agent.ctl("warm", folder / "adhoc.gguf", "--hold", "cached")
        until("the state to be written", lambda: "adhoc" in open(
            os.path.join(agent.state_dir, "wanted.json")).read())
        agent.kill()
        assert os.path.exists(agent.socket)
        make_cold(folder / "m.gguf")
        agent.start()
        until("it to be held again", lambda: held(agent, "m"))
        until("the ad-hoc one too", lambda: held(agent, folder / "adhoc.gguf"))
        assert not held(agent, "other")
        # A stop in order keeps it too; what was dropped stays away.
        agent.ctl("drop", "m")
        agent.stop()
        assert not os.path.exists(agent.socket)
        agent.start()
        until("the ad-hoc one again", lambda: held(agent, folder / "adhoc.gguf"))
        assert agent.model("m")["tiers"]["page-cache"]["hold"] is None
        agent.stop()


def killed_at_any_moment(build, folder):
    paths = [folder / "m.gguf", folder / "other.gguf"]
    for path in paths:
        write_gguf(path, 64 * MIB)
    dice = random.Random(7)
    with Agent(build, folder, config(folder, 'preload = "boot"')) as agent:
        for _ in range(30):
            make_cold(paths[0])
            warm = subprocess.Popen(
                [os.path.join(agent.bin, "andironctl"), "--socket", agent.socket, "warm", "other"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:  # a random part of a warm, of a write of the state, of a start
                agent.process.wait(dice.random() * 0.2)
            except subprocess.TimeoutExpired:
                pass
            agent.kill()
            warm.wait(30)
            agent.start()
        until("both to be warm at last", lambda: held(agent, "m"))
        agent.ctl("warm", "other")
        for path in paths:
            size = os.path.getsize(path)
            assert resident(path) == pages(size)
        leftovers = sorted(os.listdir(agent.run_dir)) + sorted(os.listdir(agent.state_dir))
        assert leftovers == ["andirond.lock", "control.sock", "hook.sock", "lease.sock",
                             "wanted.json"], leftovers
        agent.stop()


def a_broken_state_is_no_obstacle(build, folder):
    write_gguf(folder / "m.gguf", 8 * MIB)
    write_gguf(folder / "other.gguf", 8 * MIB)
    os.makedirs(folder / "state")
    with open(folder / "state/wanted.json", "w") as file:
        file.write('{"wanted": [')
    with Agent(build, folder, config(folder, 'preload = "boot"')) as agent:
        until("it to be held", lambda: held(agent, "m"))
        assert "starting without" in agent.log()
        agent.stop()


def two_agents_do_not_share_a_folder(build, folder):
    for name in ("m.gguf", "other.gguf"):
        write_gguf(folder / name, MIB)
    with Agent(build, folder, config(folder)) as agent:
        second = subprocess.run(
            [os.path.join(agent.bin, "andirond"), "--config", agent.config_path, "--runtime-dir",
             agent.run_dir, "--state-dir", agent.state_dir], capture_output=True, text=True)
        assert second.returncode == 1 and "already_running" in second.stderr, second
        assert agent.get("/healthz") == {"ok": True}
        agent.stop()


main([what_was_held_is_held_again, killed_at_any_moment, a_broken_state_is_no_obstacle,
      two_agents_do_not_share_a_folder])
