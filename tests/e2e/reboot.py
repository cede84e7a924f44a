#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What was in memory though nobody asked for it comes back after a reboot, once. A reboot is played
by cold files and another boot id, which a mount namespace puts in the kernel's place."""
import json
import os
import signal
import subprocess
import uuid

from harness import (MIB, Agent, main, make_cold, need_root, pages, resident, skip, until,
                     write_gguf)

WRAP = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


class Machine:
    """An agent, its models, and the boot that they are in."""

    MODELS = {"idle": "", "asked": "", "preloaded": 'preload = "boot"', "never": 'preload = "never"'}

    def __init__(self, build, folder, idle=16 * MIB):
        self.folder = folder
        for seed, name in enumerate(self.MODELS):
            write_gguf(self.path(name), idle if name == "idle" else 16 * MIB, seed)
        self.agent = Agent(build, folder, self.config(), [
            "unshare", "--mount", "--propagation", "private", "sh", "-c", WRAP, folder / "boot_id"])
        self.reboot()

    def config(self, extra=""):
        text = '[budget]\nram_headroom = "1GiB"\n' + extra
        for name, line in self.MODELS.items():
            text += f'[[model]]\nname = "{name}"\nsource = "{self.path(name)}"\n{line}\n'
        return text

    def path(self, name):
        return self.folder / f"{name}.gguf"

    def size(self, name):
        return os.path.getsize(self.path(name))

    def reboot(self):
        """While the agent does not run."""
        with open(self.folder / "boot_id", "w") as file:
            file.write(f"{uuid.uuid4()}\n")
        self.make_all_cold()

    def make_all_cold(self):
        for name in self.MODELS:
            make_cold(self.path(name))

    def read(self, name, share=1.0):
        """As a runtime does; the agent has seen it when this returns."""
        fd = os.open(self.path(name), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no more than is read
        os.pread(fd, int(self.size(name) * share), 0)
        os.close(fd)
        until("the agent to see it", lambda: (
            self.agent.model(name)["tiers"]["page-cache"]["resident_bytes"] or 0) > 0)

    def has_come_back(self, name):
        return resident(self.path(name)) == pages(self.size(name))

    def remembered(self):
        try:
            with open(os.path.join(self.agent.state_dir, "resident.json")) as file:
                return [model["name"] for model in json.load(file)["models"]]
        except FileNotFoundError:
            return []

    def nothing_comes(self):
        """The agent has had time to begin: its boot model is there, and some ticks have passed."""
        self.agent.until_state("preloaded", "warm")
        then = self.agent.get("/v1/status")["uptime_s"]
        until("three ticks", lambda: self.agent.get("/v1/status")["uptime_s"] > then + 3.1)
        for name in self.MODELS:
            if name != "preloaded":
                assert resident(self.path(name)) == 0, name
        assert [job["model"] for job in self.agent.get("/v1/jobs")["jobs"]] == ["preloaded"]


def machine(build, folder, **kwargs):
    need_root()
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if done.returncode != 0:
        skip("needs to make a mount namespace")
    return Machine(build, folder, **kwargs)


def comes_back_once(build, folder):
    it = machine(build, folder)
    with it.agent as agent:
        agent.until_state("preloaded", "warm")
        it.read("idle")
        it.read("asked", share=0.3)  # too little to be worth it
        it.read("never")
        agent.stop()
        assert it.remembered() == ["idle"], it.remembered()
        it.reboot()
        agent.start()
        until("it to come back", lambda: it.has_come_back("idle"))
        model = agent.until_state("idle", "warm")
        assert model["tiers"]["page-cache"]["hold"] is None, model
        assert model["want"]["hold"] is None and model["last_used"] is None, model
        said = agent.ctl("explain", "idle").stdout
        assert "Before the reboot all of its 16 MiB was resident; it was read again." in said, said
        warmed = [event["model"] for event in agent.events() if event["type"] == "model.warmed"]
        assert warmed == ["preloaded", "idle"], warmed  # what is wanted comes first
        assert "idle: was resident before the reboot, read again" in agent.log(), agent.log()
        for name in ("asked", "never"):
            assert resident(it.path(name)) == 0, name
        with open(os.path.join(agent.state_dir, "wanted.json")) as file:
            assert [m["name"] for m in json.load(file)["wanted"]] == ["preloaded"]
        # Not again in the same boot, however the agent ends.
        agent.kill()
        it.make_all_cold()
        agent.start()
        it.nothing_comes()
        agent.stop()
        # And what is no longer there is not remembered.
        assert it.remembered() == [], it.remembered()
        it.reboot()
        agent.start()
        it.nothing_comes()
        agent.stop()


def a_kill_takes_nothing_from_the_next_boot(build, folder):
    """Killed before all has come back: not in this boot, but what was not read is not forgotten."""
    slow = '[stream]\nmax_bandwidth = "1MiB"\n'
    it = machine(build, folder)
    with it.agent as agent:
        agent.until_state("preloaded", "warm")
        it.read("idle")
        agent.stop()
        it.reboot()
        it.MODELS = dict(it.MODELS, preloaded="")
        agent.configure(it.config(slow))
        os.unlink(os.path.join(agent.state_dir, "wanted.json"))
        agent.start()
        until("it to be read", lambda: resident(it.path("idle")) > 0)
        agent.kill()
        assert it.remembered() == ["idle"], it.remembered()
        it.reboot()
        agent.configure(it.config())
        agent.start()
        until("it to come back", lambda: it.has_come_back("idle"))
        agent.stop()


def another_file_is_left_alone(build, folder):
    it = machine(build, folder)
    with it.agent as agent:
        it.read("idle")
        agent.stop()
        write_gguf(it.path("idle"), 16 * MIB, seed=99)
        it.reboot()
        agent.start()
        it.nothing_comes()
        said = agent.ctl("explain", "idle").stdout
        assert "it is not read again: its files are other ones now." in said, said
        agent.stop()


def makes_way(build, folder):
    """For whatever is asked for, itself included; and goes on after it."""
    it = machine(build, folder, idle=192 * MIB)  # more than is asked for ahead
    it.MODELS = dict(it.MODELS, preloaded="")
    slow = it.config('[stream]\nmax_bandwidth = "8MiB"\n')
    it.agent.configure(it.config())
    with it.agent as agent:
        def jobs(model):
            return [job["state"] for job in agent.get("/v1/jobs")["jobs"] if job["model"] == model]

        def reboot_slowly():
            agent.stop()
            it.reboot()
            agent.configure(slow)
            agent.start()
            until("it to be read", lambda: jobs("idle") == ["running"])
            assert "it is read again now" in agent.ctl("explain", "idle").stdout

        def go_on():
            agent.configure(it.config())
            agent.ctl("reload")
        it.read("idle")
        reboot_slowly()
        warm = agent.begin_ctl("warm", "asked")
        until("it to make way", lambda: jobs("idle") == ["cancelled"])
        assert not it.has_come_back("idle")
        go_on()
        warm.communicate(timeout=60)
        assert warm.returncode == 0 and it.has_come_back("asked")
        until("it to come back", lambda: it.has_come_back("idle"))
        until("its end", lambda: jobs("idle") == ["cancelled", "done"])
        agent.ctl("drop", "asked")
        reboot_slowly()
        warm = agent.begin_ctl("warm", "idle")
        until("it to make way", lambda: jobs("idle")[:1] == ["cancelled"])
        go_on()
        out, err = warm.communicate(timeout=60)
        assert warm.returncode == 0 and "mapped" in out, (out, err)
        model = agent.model("idle")
        assert model["tiers"]["page-cache"]["hold"] == "mapped", model
        assert model["want"]["hold"] == "mapped", model
        assert "reboot" not in agent.ctl("explain", "idle").stdout
        agent.stop()


def a_broken_list_is_no_obstacle(build, folder):
    it = machine(build, folder)
    os.makedirs(folder / "state")
    with open(folder / "state/resident.json", "w") as file:
        file.write('{"boot_id": "another", "models": [')
    with it.agent as agent:
        it.nothing_comes()
        assert "what was resident before a reboot is not read again" in agent.log(), agent.log()
        it.read("idle")
        agent.stop()
        assert it.remembered() == ["idle"], it.remembered()


def a_full_disk_is_no_reason_to_read_twice(build, folder):
    it = machine(build, folder)
    os.makedirs(folder / "state")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", folder / "state"], check=True)
    try:
        with it.agent as agent:
            agent.until_state("preloaded", "warm")
            it.read("idle")
            agent.stop()
            assert it.remembered() == ["idle"], it.remembered()
            with open(folder / "state/fill", "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    pass
            it.reboot()
            agent.start()
            it.nothing_comes()
            assert "what was resident before a reboot is not read again" in agent.log(), agent.log()
            agent.process.send_signal(signal.SIGTERM)
            assert agent.process.wait(30) == 0
            assert it.remembered() == ["idle"], it.remembered()
            # That one could not take the list; the next one can.
            os.unlink(folder / "state/fill")
            it.make_all_cold()
            agent.start()
            until("it to come back", lambda: it.has_come_back("idle"))
            agent.stop()
    finally:
        subprocess.run(["umount", "-l", folder / "state"], check=False)


main([comes_back_once, a_kill_takes_nothing_from_the_next_boot, another_file_is_left_alone,
      makes_way, a_broken_list_is_no_obstacle, a_full_disk_is_no_reason_to_read_twice])
