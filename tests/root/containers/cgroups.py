#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A service that no runtime tells of, known by its cgroup alone, on whichever cgroup version this
machine has: its models are warmed each time it starts."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../e2e"))
from harness import MIB, Agent, main, make_cold, need_root, pages, resident, skip, until, write_gguf  # noqa: E402

LETTERS = {"container.started": "S", "model.warmed": "W", "container.stopped": "X"}


def story(agent):
    return "".join(LETTERS.get(event["type"], "") for event in agent.events())


def until_story(agent, wanted):
    try:
        until(wanted, lambda: story(agent) == wanted)
    except AssertionError:
        raise AssertionError(f"{story(agent)} instead of {wanted}") from None


class Service:
    """A process in a cgroup of its own, as a service manager makes it."""

    def __init__(self, name):
        root = "/sys/fs/cgroup"
        if not os.path.exists(root + "/cgroup.controllers"):
            root = next((path for path in (f"{root}/{each}" for each in
                                           ("systemd", "pids", "memory", "devices", "cpu"))
                         if os.path.exists(path + "/cgroup.procs")), None)
        if root is None:
            skip("there are no cgroups")
        self.slice = f"{root}/andiron-test-{os.getpid()}.slice"
        self.path = f"{self.slice}/{name}.service"
        self.process = None
        try:
            os.mkdir(self.slice)
        except OSError as error:
            skip(f"cannot make cgroups: {error}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.stop()
        os.rmdir(self.slice)

    def start(self):
        os.mkdir(self.path)
        self.process = subprocess.Popen(["sleep", "100000"])
        with open(self.path + "/cgroup.procs", "w") as file:
            file.write(str(self.process.pid))

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process = None
        os.rmdir(self.path)


def a_service_is_known_by_its_cgroup(build, folder):
    need_root()
    path = folder / "m.gguf"
    size = write_gguf(path, 32 * MIB)
    make_cold(path)
    name = f"andiron-test-{os.getpid()}"
    config = f"""
[budget]
ram_headroom = "64MiB"
[watch]
docker = "off"
[[model]]
name = "m"
source = "{path}"
preload = "container:{name}"
"""
    with Service(name) as service, Agent(build, folder, config) as agent:
        found = until("the agent to see cgroups", lambda: next(
            (c for c in agent.get("/v1/doctor")["capabilities"]
             if c["name"] == "cgroup-watch" and c["state"] != "off"), None))
        print(f"cgroup-watch is {found['state']}: {found['reason']}")
        service.start()
        until_story(agent, "SW")
        assert resident(path) == pages(size)
        agent.ctl("drop", "m")
        service.stop()
        until_story(agent, "SWX")
        service.start()
        until_story(agent, "SWXSW")
        assert resident(path) == pages(size)
        # An agent that comes later finds what runs.
        agent.kill()
        agent.start()
        until("the running service to be found",
              lambda: story(agent).count("S") == 1 and story(agent).endswith("W"))
        agent.stop()


main([a_service_is_known_by_its_cgroup])
