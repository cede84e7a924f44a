#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A container of a real dockerd has its models warmed each time it starts, once, and no start is
missed: not over a kill, an OOM kill, a restart of dockerd, an agent that came later, or a storm."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from dockerd import Dockerd  # noqa: E402  (finds the harness too)
from harness import MIB, Agent, main, make_cold, pages, resident, until, write_gguf  # noqa: E402


def config(folder, dockerd, preload='"container:ollama"'):
    return f"""
[budget]
ram_headroom = "64MiB"
[watch]
docker = "{dockerd.socket}"
[[model]]
name = "m"
source = "{folder / 'm.gguf'}"
preload = [{preload}]
"""


def story(agent):
    """What happened, in order: S a start, W a warm model, X a stop."""
    letters = {"container.started": "S", "model.warmed": "W", "container.stopped": "X"}
    return "".join(letters.get(event["type"], "") for event in agent.events()
                   if event["model"] != "fence" and not is_of_fence(event))


def is_of_fence(event):
    return event["by"] is not None and event["by"]["container"] == "fence"


def until_story(agent, wanted):
    try:
        until(wanted, lambda: story(agent) == wanted)
    except AssertionError:
        raise AssertionError(f"{story(agent)} instead of {wanted}") from None


def capability(agent, name):
    """As doctor has it; an agent that has just started does not know yet."""
    return next((found for found in agent.get("/v1/doctor")["capabilities"]
                 if found["name"] == name), {"state": "unknown", "reason": "", "remedy": ""})


def until_connected(agent):
    until("the agent to follow dockerd", lambda: capability(agent, "docker")["state"] == "on")


def each_start_warms_once(build, folder):
    path = folder / "m.gguf"
    size = write_gguf(path, 64 * MIB)
    make_cold(path)
    with Dockerd(folder) as dockerd, Agent(build, folder, config(folder, dockerd)) as agent:
        until_connected(agent)
        assert agent.model("m")["state"] == "cold"
        dockerd.run("other")
        dockerd.run("ollama")
        until_story(agent, "SW")
        assert resident(path) == pages(size)
        started = next(e for e in agent.events() if e["type"] == "container.started")
        assert started["by"]["container"] == "ollama", started
        pid = int(dockerd.docker("inspect", "--format", "{{.State.Pid}}", "ollama").stdout)
        assert started["by"]["pid"] == pid, (started, pid)

        agent.ctl("drop", "m")
        assert resident(path) == 0
        dockerd.docker("restart", "--time", "0", "ollama")
        until_story(agent, "SWXSW")
        assert resident(path) == pages(size)

        dockerd.docker("kill", "ollama")
        until_story(agent, "SWXSWX")
        dockerd.docker("start", "ollama")
        until_story(agent, "SWXSWXSW")
        dockerd.docker("rm", "--force", "ollama")
        until_story(agent, "SWXSWXSWX")
        # Made anew under its name, as an update does it.
        dockerd.run("ollama")
        until_story(agent, "SWXSWXSWXSW")
        agent.stop()


def an_oom_kill_is_a_stop_and_its_restart_a_start(build, folder):
    write_gguf(folder / "m.gguf", 16 * MIB)
    with Dockerd(folder) as dockerd, Agent(build, folder, config(folder, dockerd)) as agent:
        until_connected(agent)
        # Eats what it may have until the kernel kills it, each time that the file is there.
        os.makedirs(folder / "share")
        dockerd.run("ollama", "--memory", "32m", "--memory-swap", "32m", "--restart", "on-failure",
                    "--volume", f"{folder / 'share'}:/share",
                    command=("/bin/sh", "-c",
                             "while ! /bin/busybox rm /share/eat; do /bin/busybox sleep 0.05; done;"
                             "/bin/busybox tail -c 1000000000 /dev/zero"))
        until_story(agent, "SW")
        open(os.path.join(folder / "share", "eat"), "w").close()
        until("the container to be killed and started again", lambda: "SWXSW" in story(agent))
        state = dockerd.docker("inspect", "--format", "{{.RestartCount}}", "ollama").stdout
        assert int(state) == 1, state
        until_story(agent, "SWXSW")
        agent.stop()


def a_restart_of_dockerd_loses_no_start(build, folder):
    write_gguf(folder / "m.gguf", 16 * MIB)
    with Dockerd(folder) as dockerd, Agent(build, folder, config(folder, dockerd)) as agent:
        until_connected(agent)
        dockerd.run("ollama", "--restart", "always")
        until_story(agent, "SW")
        dockerd.stop()
        until("the loss to be seen", lambda: capability(agent, "docker")["state"] != "on")
        lost = capability(agent, "docker")
        assert lost["reason"] and lost["remedy"], lost
        dockerd.start()
        until("the container to run again", lambda: story(agent).count("S") == 2)
        until("its models to be warm", lambda: story(agent).count("W") == 2)

        dockerd.kill()  # its events die with it, and its containers may live on
        dockerd.start()
        until_connected(agent)
        # One more start, whoever is the first to see it: dockerd ends what its predecessor left.
        until("one more start", lambda: story(agent).count("S") == 3)
        until("its models to be warm", lambda: story(agent).count("W") == 3)
        agent.stop()


def an_agent_that_comes_later_finds_what_runs(build, folder):
    write_gguf(folder / "m.gguf", 16 * MIB)
    with Dockerd(folder) as dockerd:
        dockerd.run("ollama")
        with Agent(build, folder, config(folder, dockerd, '"never"')) as agent:
            until("Docker to be left alone",
                  lambda: "container:NAME" in capability(agent, "docker")["reason"])
            assert story(agent) == ""
            agent.configure(config(folder, dockerd))
            agent.ctl("reload")
            until_story(agent, "SW")
            # Another model of a container that runs already.
            agent.configure(config(folder, dockerd) +
                            f'[[model]]\nname="n"\nsource="{folder / "m.gguf"}"\n'
                            'preload="container:ollama"\n')
            agent.ctl("reload")
            until_story(agent, "SWW")
            agent.configure("[watch]\ndocker = \"off\"\n")
            agent.ctl("reload")
            until("Docker to be off",
                  lambda: "off" in capability(agent, "docker")["reason"])
            agent.stop()


def a_storm_warms_no_more_than_it_starts(build, folder):
    """60 restarts are 300 events: kill, die, stop, start and restart each."""
    write_gguf(folder / "m.gguf", 16 * MIB)
    write_gguf(folder / "fence.gguf", MIB)
    fence = f'[[model]]\nname="fence"\nsource="{folder / "fence.gguf"}"\npreload="container:fence"\n'
    with Dockerd(folder) as dockerd, Agent(build, folder,
                                           config(folder, dockerd) + fence) as agent:
        until_connected(agent)
        dockerd.run("ollama")
        until_story(agent, "SW")
        subprocess.run(["docker", "--host", "unix://" + dockerd.socket, "restart", "--time", "0",
                        *["ollama"] * 60], check=True, capture_output=True, timeout=300)
        dockerd.run("fence")  # whose events come after those of the storm
        until("the storm to be known", lambda: any(
            is_of_fence(e) for e in agent.events() if e["type"] == "container.started"))
        until("the last start to be warmed", lambda: story(agent).endswith("W"))
        told = story(agent)
        assert 1 < told.count("W") <= told.count("S") <= 61, told
        print(f"storm: {told.count('S')} starts told, {told.count('W')} warms")
        agent.stop()


main([each_start_warms_once, an_oom_kill_is_a_stop_and_its_restart_a_start,
      a_restart_of_dockerd_loses_no_start, an_agent_that_comes_later_finds_what_runs,
      a_storm_warms_no_more_than_it_starts])
