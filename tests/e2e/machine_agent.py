# SPDX-License-Identifier: MIT
"""An agent with the default runtime folder, as a machine has one: agents with a --runtime-dir of
their own, as other tests run them, do not look for each other."""
import os
import signal

from harness import Agent, need_root, skip, until


def running():
    """Pids of agents with the default runtime folder. One that has ended has no command line."""
    found = []
    others = ("--runtime-dir", "--check-config", "--version", "--help")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/cmdline") as command:
                line = command.read()
                if comm.read() == "andirond\n" and line and not any(o in line for o in others):
                    found.append(int(pid))
        except OSError:
            continue
    return found


def need_none():
    need_root()
    if found := running():
        skip(f"this machine's own andirond runs: pid {found[0]}")


class MachineAgent(Agent):
    """It has a /run of its own, so that the machine's stays as it is. `contained`: it also has
    processes of its own, as in a container, and does not see the machine's."""

    def __init__(self, build, folder, config="", contained=False):
        super().__init__(build, folder, config)
        self.contained = contained
        apart = ["--pid", "--fork", "--kill-child", "--mount-proc"] if contained else []
        self.wrap = ["unshare", "--mount", "--propagation", "private", *apart, "sh", "-c",
                     'mount -t tmpfs tmpfs /run && exec "$@"', "sh"]

    def folder_options(self):
        return ["--state-dir", self.state_dir]

    def pid(self):
        if not self.contained:
            return self.process.pid
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return int(file.read())

    def start(self):
        self.launch()
        until("the agent to answer", self.found)

    def found(self):
        try:
            self.socket = f"/proc/{self.pid()}/root/run/andiron/control.sock"
        except (OSError, ValueError):  # not forked yet, or gone: answers() says which
            pass
        return self.answers()

    def stop(self, seconds=30):
        os.kill(self.pid(), signal.SIGTERM)
        assert self.process.wait(seconds) == 0, self.process.returncode

    def single(self):
        """The capability; an agent that has just started does not know all of them yet."""
        return until("the agent to know its capabilities", lambda: next(
            (found for found in self.get("/v1/doctor")["capabilities"]
             if found["name"] == "single-agent"), None))

    def hold(self, model="m"):
        return self.model(model)["tiers"]["page-cache"]["hold"]
