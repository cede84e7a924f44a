#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A file system that went away stops what lies on it, and nothing else."""
import json
import os

from harness import (MIB, Agent, main, make_cold, need_root, pages, resident, skip, until,
                     write_gguf)
from stalling_fs import StallingFs

FAR = 12  # more than the slow lane has threads


def config(folder, preload=False, far=1):
    boot = 'preload = "boot"' if preload else ""
    text = f"""
[agent]
allow_roots = ["{folder / 'local'}", "{folder / 'net'}"]
[budget]
ram_headroom = "1GiB"
[[model]]
name = "near"
source = "{folder / 'near.gguf'}"
{boot}
[[model]]
name = "beside"
source = "{folder / 'beside.gguf'}"
"""
    for i in range(far):
        text += f"""
[[model]]
name = "far{i}"
source = "{folder / 'net'}/far{i}.gguf"
{boot}
"""
    return text


def make_files(folder, far=1, bytes_of_far=16 * MIB):
    os.makedirs(folder / "backing")
    os.makedirs(folder / "net")
    for i in range(far):
        write_gguf(folder / f"backing/far{i}.gguf", bytes_of_far, seed=i)
    os.makedirs(folder / "local")
    write_gguf(folder / "local/adhoc.gguf", MIB)
    for name in ("near", "beside"):
        write_gguf(folder / (name + ".gguf"), 16 * MIB)
        make_cold(folder / (name + ".gguf"))


def silent_lane(agent):
    lanes = [lane for lane in agent.get("/v1/status")["lanes"] if lane["silent_s"] > 1]
    return lanes[0] if lanes else None


def the_rest_works(agent, folder):
    """Calls are answered, and models of other disks come and go."""
    for _ in range(2):
        status, model = agent.call("POST", "/v1/models/beside/warm", {"wait": True})
        assert status == 200 and model["state"] == "warm", (status, model)
        assert resident(folder / "beside.gguf") == pages(model["bytes"])
        status, model = agent.call("POST", "/v1/models/beside/drop", {})
        assert status == 200 and model["state"] == "cold", (status, model)
    # Roots that went away are in nobody's way, neither are questions for what is not allowed.
    source = folder / "local/adhoc.gguf"
    status, found = agent.call("POST", "/v1/resolve", {"source": source})
    assert status == 200 and found["bytes"] == os.path.getsize(source), found
    for _ in range(10):
        status, answer = agent.call("POST", "/v1/resolve", {"source": folder / "near.gguf"})
        assert status == 403, answer
    status, model = agent.call("POST", "/v1/warm", {"source": source, "wait": True})
    assert status == 200 and model["state"] == "warm", (status, model)
    agent.ctl("drop", source)
    assert "far0" in agent.ctl("status").stdout
    assert agent.ctl("explain", "far0").stdout.strip()
    assert agent.ctl("plan").returncode == 0


def reads_that_hang(build, folder):
    make_files(folder)
    with StallingFs(folder / "backing", folder / "net") as net, \
         Agent(build, folder, config(folder)) as agent:
        net.tell(f"stall reads {4 * MIB}")
        status, job = agent.call("POST", "/v1/models/far0/warm", {})
        assert status == 202, job
        lane = until("the lane to be seen silent", lambda: silent_lane(agent))
        assert lane["busy"] and lane["lane"].startswith("net:"), lane
        the_rest_works(agent, folder)
        model = agent.model("far0")
        assert model["state"] == "warming", model
        # It comes back, and so does the model.
        net.tell("go")
        model = agent.until_state("far0", "warm")
        assert model["tiers"]["page-cache"]["hold"] == "mapped", model
        assert resident(folder / "net/far0.gguf") == pages(model["bytes"])
        assert silent_lane(agent) is None
        assert "all of its" in agent.ctl("explain", "far0").stdout
        agent.stop()


def dropped_while_it_hangs(build, folder):
    make_files(folder)
    with StallingFs(folder / "backing", folder / "net") as net, \
         Agent(build, folder, config(folder)) as agent:
        net.tell(f"stall reads {4 * MIB}")
        agent.call("POST", "/v1/models/far0/warm", {})
        until("the lane to be seen silent", lambda: silent_lane(agent))
        drop = agent.begin_ctl("drop", "far0")
        until("the job to be told", lambda: agent.model("far0")["want"]["hold"] is None)
        the_rest_works(agent, folder)
        _, said = drop.communicate(timeout=60)
        assert drop.returncode == 1 and "timeout" in said, (drop.returncode, said)
        net.tell("go")
        until("it to be let go of", lambda: agent.model("far0")["state"] == "cold")
        assert agent.get("/v1/jobs")["jobs"][0]["state"] == "cancelled"
        assert agent.model("far0")["tiers"]["page-cache"]["hold"] is None
        assert agent.get("/v1/status")["tiers"]["page-cache"]["used_bytes"] == 0
        agent.ctl("warm", "far0")
        agent.stop()


def stopped_while_reads_hang(build, folder):
    make_files(folder)
    with StallingFs(folder / "backing", folder / "net") as net, \
         Agent(build, folder, config(folder)) as agent:
        agent.ctl("warm", "near")
        net.tell(f"stall reads {4 * MIB}")
        agent.call("POST", "/v1/models/far0/warm", {})
        until("the lane to be seen silent", lambda: silent_lane(agent))
        agent.stop()  # its deadlines are 2, 5 and 3 s; the status is 0
        assert not os.path.exists(agent.socket), "the socket was left behind"
        make_cold(folder / "near.gguf")
        agent.start()
        agent.until_state("near", "warm")
        # It was wanted and is again, and still hangs.
        until("the lane to be silent again", lambda: silent_lane(agent))
        the_rest_works(agent, folder)
        net.tell("go")
        agent.until_state("far0", "warm")
        agent.stop()


def killed_while_it_recharges(build, folder):
    """Its pages are given back to be charged anew, and a kill comes in between: it is wanted still."""
    make_files(folder)
    with StallingFs(folder / "backing", folder / "net") as net, \
         Agent(build, folder, config(folder)) as agent:
        agent.ctl("warm", "far0", "--hold", "mapped")
        net.tell("stall all")
        warm = agent.begin_ctl("warm", "far0", "--recharge")
        until("it to be let go of",
              lambda: agent.model("far0")["tiers"]["page-cache"]["hold"] is None)
        agent.ctl("warm", "beside")

        def written():
            with open(os.path.join(agent.state_dir, "wanted.json")) as file:
                return {model["name"]: model["hold"] for model in json.load(file)["wanted"]}
        until("what is wanted to be written", lambda: "beside" in written())
        assert written().get("far0") == "mapped", written()
        agent.process.kill()
        net.tell("go")  # a thread that waits for it cannot be killed
        agent.process.wait()
        warm.wait(60)
        agent.start()
        agent.until_state("far0", "warm")
        until("it to be held", lambda: (
            agent.model("far0")["tiers"]["page-cache"]["hold"] == "mapped"))
        agent.stop()


def everything_hangs(build, folder):
    """Not even names are answered: resolving and looking at residency hang, of many models."""
    make_files(folder, FAR, MIB)
    with StallingFs(folder / "backing", folder / "net") as net, \
         Agent(build, folder, config(folder, preload=True, far=FAR)) as agent:
        for i in range(FAR):
            agent.until_state(f"far{i}", "warm")
        net.tell("stall all")
        status = until("a slow thread to be seen stuck", lambda: (
            s := agent.get("/v1/status"))["slow_lane"]["stuck_threads"] and s)
        for i in range(FAR):  # each is asked for, which looks at it anew
            assert agent.call("POST", f"/v1/models/far{i}/warm", {})[0] == 202
        the_rest_works(agent, folder)
        drop = agent.begin_ctl("drop", "far1")
        resolve = agent.begin_ctl("resolve", folder / "net/far2.gguf")
        the_rest_works(agent, folder)
        # What came over the socket and is not even resolved can be cancelled.
        status, job = agent.call("POST", "/v1/warm", {"source": folder / "net/none.gguf"})
        assert status == 202 and job["state"] == "resolving", job
        status, job = agent.call("DELETE", f"/v1/jobs/{job['id']}")
        assert status == 200 and job["state"] == "cancelled", job
        # What is on other disks is still looked after.
        seq = max(event["seq"] for event in agent.events())
        os.rename(folder / "near.gguf", folder / "away.gguf")
        agent.until_state("near", "missing")
        os.rename(folder / "away.gguf", folder / "near.gguf")
        agent.until_state("near", "warm")
        assert "model.missing" in [e["type"] for e in agent.events(seq) if e["model"] == "near"]
        _, said = drop.communicate(timeout=60)
        assert drop.returncode == 1 and "timeout" in said, (drop.returncode, said)
        _, said = resolve.communicate(timeout=60)
        assert resolve.returncode == 1 and "timeout" in said, (resolve.returncode, said)
        stuck = agent.get("/v1/status")["slow_lane"]["stuck_threads"]
        assert stuck <= 2, f"{stuck} threads wait for one file system"
        agent.stop()

        agent.start()
        agent.until_state("near", "warm")
        the_rest_works(agent, folder)
        net.tell("go")
        for i in range(FAR):
            if i != 1:
                agent.until_state(f"far{i}", "warm")
        until("no thread to be stuck",
              lambda: agent.get("/v1/status")["slow_lane"]["stuck_threads"] == 0)
        agent.stop()


if __name__ == "__main__":
    need_root()
    if not os.path.exists("/dev/fuse"):
        skip("needs /dev/fuse, and this machine has none")
    main([reads_that_hang, dropped_while_it_hangs, stopped_while_reads_hang,
          killed_while_it_recharges, everything_hangs])
