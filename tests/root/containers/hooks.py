#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Container hooks: reports over the control socket, a storm of them through the hook program, and a
real OCI runtime (runc) that calls the hook as a container starts and stops."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../e2e"))
from harness import MIB, Agent, main, make_cold, need_root, pages, resident, until, write_gguf  # noqa: E402

LETTERS = {"container.started": "S", "model.warmed": "W", "container.stopped": "X"}


def config(folder):
    return f"""
[budget]
ram_headroom = "64MiB"
[watch]
docker = "off"
[[model]]
name = "m"
source = "{folder / 'm.gguf'}"
preload = "container:ollama"
"""


def story(agent):
    return "".join(LETTERS.get(event["type"], "") for event in agent.events())


def until_story(agent, wanted):
    try:
        until(wanted, lambda: story(agent) == wanted)
    except AssertionError:
        raise AssertionError(f"{story(agent)} instead of {wanted}") from None


def report(agent, **state):
    return agent.call("POST", "/v1/hooks/container", state)


def reports_over_the_control_socket(build, folder):
    path = folder / "m.gguf"
    size = write_gguf(path, 32 * MIB)
    make_cold(path)
    with Agent(build, folder, config(folder)) as agent:
        started = {"id": "a" * 64, "name": "ollama", "status": "running", "pid": 4242}
        status, body = report(agent, **started)
        assert (status, body) == (200, {"container": "ollama", "status": "started",
                                        "models": ["m"]}), (status, body)
        until_story(agent, "SW")
        assert resident(path) == pages(size)
        for _ in range(300):  # the same start, again and again
            status, body = report(agent, **started)
            assert status == 200 and body["models"] == [], body
        assert report(agent, **dict(started, status="stopped", pid=0))[0] == 200
        until_story(agent, "SWX")
        assert report(agent, **dict(started, pid=4243))[0] == 200  # warmed when its time has come
        until_story(agent, "SWXSW")
        # A crash loop: told each time, warmed once a second at most, and at its end.
        for pid in range(5000, 5100):
            report(agent, **dict(started, pid=pid))
        until("the last start to be warmed", lambda: story(agent).endswith("W"))
        assert story(agent).count("S") == 102, story(agent)
        assert story(agent).count("W") < 20, story(agent)

        before = story(agent)
        assert report(agent, id="b", name="jellyfin", status="running")[1]["models"] == []
        for bad in ({}, {"id": "a"}, {"id": "a", "status": "frozen"}, {"id": "a\n", "status":
                    "running"}, {"name": "x" * 200, "status": "running"}, {"id": 1, "status": "x"}):
            status, body = report(agent, **bad)
            assert status == 400 and body["error"]["code"] == "bad_request", (bad, status, body)
        # A bundle is no way to have root read a file.
        os.mkfifo(folder / "config.json")
        assert report(agent, id="c" * 64, status="running", bundle=folder.path)[0] == 200
        assert story(agent) == before
        agent.stop()


def hook_program(agent):
    return [os.path.join(agent.bin, "andiron-oci-hook"), "--socket",
            os.path.join(agent.run_dir, "hook.sock")]


def a_storm_of_hooks_is_one_start(build, folder):
    write_gguf(folder / "m.gguf", 16 * MIB)
    with Agent(build, folder, config(folder)) as agent:
        state = json.dumps({"ociVersion": "1.0.2", "id": "a" * 64, "status": "running", "pid": 77,
                            "bundle": "/none", "annotations": {"nerdctl/name": "ollama"}})
        with open(folder / "state.json", "w") as file:
            file.write(state)
        storm = []
        for _ in range(300):
            with open(folder / "state.json") as file:
                storm.append(subprocess.Popen(hook_program(agent), stdin=file))
        for hook in storm:
            assert hook.wait(60) == 0
        until_story(agent, "SW")
        assert "dropped" not in hooks_of(agent)["reason"], hooks_of(agent)
        garbage = subprocess.run(hook_program(agent), input=b"\xff" * 5000, check=False)
        assert garbage.returncode == 0
        until("it to be counted", lambda: "1 that made no sense" in hooks_of(agent)["reason"])
        subprocess.run(hook_program(agent), input=state.replace("running", "stopped").encode(),
                       check=True)
        until_story(agent, "SWX")
        agent.stop()


def hooks_of(agent):
    return next(capability for capability in agent.get("/v1/doctor")["capabilities"]
                if capability["name"] == "container-hooks")


def the_socket_comes_back(build, folder):
    write_gguf(folder / "m.gguf", 16 * MIB)
    with Agent(build, folder, config(folder)) as agent:
        path = hook_program(agent)[-1]
        state = {"id": "a" * 64, "status": "running", "annotations": {"nerdctl/name": "ollama"}}

        def report_by_hook(pid):
            subprocess.run(hook_program(agent), input=json.dumps(dict(state, pid=pid)).encode(),
                           check=True)
        os.unlink(path)
        until("the socket to be back", lambda: os.path.exists(path))
        report_by_hook(77)
        until_story(agent, "SW")
        shutil.rmtree(agent.run_dir)
        until("the folder to be back", lambda: os.path.exists(path))
        report_by_hook(78)
        until("the start to be heard of", lambda: story(agent).startswith("SWS"))
        # Not while something else lies in its place; and its removal is enough.
        os.unlink(path)
        os.mkdir(path)
        until("doctor to say so", lambda: hooks_of(agent)["state"] == "off")
        os.rmdir(path)
        until("the socket to be back", lambda: hooks_of(agent)["state"] == "on")
        report_by_hook(79)
        until("that start to be heard of", lambda: story(agent).count("S") == 3)
        assert "agent.degraded" in agent.event_types(), agent.log()
        agent.stop()
        assert not os.path.exists(path)


class Runc:
    """Containers of runc, without dockerd: a folder is all it needs."""

    def __init__(self, agent, folder, busybox):
        self.root = folder / "runc"
        self.bundle = folder / "bundle"
        os.makedirs(os.path.join(self.bundle, "rootfs/bin"))
        shutil.copy(busybox, os.path.join(self.bundle, "rootfs/bin/busybox"))
        self.call("spec", cwd=self.bundle)
        path = os.path.join(self.bundle, "config.json")
        with open(path) as file:
            spec = json.load(file)
        spec["process"]["terminal"] = False
        spec["process"]["args"] = ["/bin/busybox", "sleep", "100000"]
        spec["hostname"] = "ollama"  # runc has no names: this is one that people gave
        program = hook_program(agent)
        hook = {"path": program[0], "args": program, "timeout": 1}
        spec["hooks"] = {"poststart": [hook], "poststop": [hook]}
        with open(path, "w") as file:
            json.dump(spec, file)

    def call(self, *arguments, check=True, cwd=None):
        # Its container inherits stdout: a pipe would never end.
        with open(self.bundle + ".log", "ab") as log:
            done = subprocess.run(["runc", "--root", self.root, *arguments], stdout=log,
                                  stderr=log, stdin=subprocess.DEVNULL, check=False, cwd=cwd)
        if check and done.returncode != 0:
            with open(self.bundle + ".log") as log:
                raise AssertionError(f"runc {arguments}: {log.read()[-800:]}")
        return done.returncode


def a_runtime_calls_the_hook(build, folder):
    need_root()
    busybox = next((path for path in ("/bin/busybox", "/usr/bin/busybox") if os.path.exists(path)),
                   None)
    if shutil.which("runc") is None or busybox is None:
        print("left out: runc or busybox is missing (scripts/install-packages.sh docker)")
        return
    path = folder / "m.gguf"
    size = write_gguf(path, 32 * MIB)
    make_cold(path)
    with Agent(build, folder, config(folder)) as agent:
        runc = Runc(agent, folder, busybox)
        if runc.call("run", "--detach", "--bundle", runc.bundle, "c1", check=False) != 0:
            with open(runc.bundle + ".log") as log:
                print("left out: runc cannot run here:", log.read()[-300:])
            return
        try:
            until_story(agent, "SW")
            assert resident(path) == pages(size)
            event = next(e for e in agent.events() if e["type"] == "container.started")
            assert event["by"]["container"] == "ollama" and event["by"]["pid"] > 0, event
        finally:
            runc.call("kill", "c1", "KILL", check=False)
            until("the container to end", lambda: runc.call("delete", "c1", check=False) == 0)
        until_story(agent, "SWX")
        agent.kill()  # and without an agent containers start all the same
        runc.call("run", "--detach", "--bundle", runc.bundle, "c2")
        runc.call("kill", "c2", "KILL")
        until("the container to end", lambda: runc.call("delete", "c2", check=False) == 0)


main([reports_over_the_control_socket, a_storm_of_hooks_is_one_start, the_socket_comes_back,
      a_runtime_calls_the_hook])
