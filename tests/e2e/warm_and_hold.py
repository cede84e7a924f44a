#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A file goes from cold to warm, is held as it should be, and is let go of."""
import json
import os
import shutil
import subprocess
import threading

from harness import (GIB, MIB, Agent, UnixConnection, main, make_cold, meminfo, pages, resident,
                     until, write_gguf)


def config(folder, hold="auto", extra=""):
    return f"""
[agent]
allow_roots = ["{folder.path}"]
[budget]
ram = "80%"
ram_headroom = "1GiB"
[[model]]
name = "m"
source = "{folder / 'm.gguf'}"
hold = "{hold}"
{extra}
"""


def four_gib_from_cold(build, folder):
    path = folder / "m.gguf"
    size = write_gguf(path, 4 * GIB)
    make_cold(path)
    with Agent(build, folder, config(folder)) as agent:
        model = agent.model("m")
        assert model["state"] == "cold", model
        done = agent.ctl("warm", "m")
        assert "warm" in done.stdout, done.stdout
        assert resident(path) == pages(size)
        model = agent.model("m")
        assert model["state"] == "warm", model
        assert model["tiers"]["page-cache"] == {"resident_bytes": size, "locked_bytes": 0,
                                                "hold": "mapped"}, model
        assert model["last_load"]["bytes"] == size
        # Mapped pages survive an fadvise of somebody else.
        make_cold(path)
        assert resident(path) == pages(size)
        agent.ctl("drop", "m")
        assert resident(path) == 0
        assert agent.model("m")["state"] == "cold"
        agent.stop()


def locked_survives_drop_caches(build, folder):
    if os.geteuid() != 0:
        print("left out, needs root: locked_survives_drop_caches")
        return
    path = folder / "m.gguf"
    size = write_gguf(path, 4 * GIB)
    make_cold(path)
    with Agent(build, folder, config(folder, "locked")) as agent:
        before = meminfo("Mlocked")
        agent.ctl("warm", "m", "--strict")
        assert agent.smaps_locked(path) == pages(size)
        model = agent.model("m")
        assert model["tiers"]["page-cache"]["locked_bytes"] == size, model
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
        assert resident(path) == pages(size)
        # Some folios wait in per-CPU batches before they are counted; drop_caches drained those.
        grown = meminfo("Mlocked") - before
        assert grown >= size, (grown, size)
        assert agent.model("m")["state"] == "warm"
        agent.ctl("drop", "m")
        until("the lock to go", lambda: meminfo("Mlocked") - before < MIB)
        agent.stop()


def only_what_is_missing_is_read(build, folder):
    path = folder / "m.gguf"
    size = write_gguf(path, 256 * MIB)
    make_cold(path)
    with Agent(build, folder, config(folder)) as agent:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(fd, 192 * MIB, 0)
        os.close(fd)
        missing = pages(size) - resident(path)
        agent.ctl("warm", "m")
        assert resident(path) == pages(size)
        read = agent.model("m")["last_load"]["bytes"]
        assert abs(read - missing) <= 4096, (read, missing)
        agent.stop()


def a_second_warm_joins_the_first(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 256 * MIB)
    make_cold(path)
    slow = config(folder) + '\n[stream]\nmax_bandwidth = "64MiB"\n'
    with Agent(build, folder, slow) as agent:
        status, first = agent.call("POST", "/v1/models/m/warm", {})
        assert status == 202, first
        status, second = agent.call("POST", "/v1/models/m/warm", {})
        assert (status, second["id"]) == (202, first["id"]), second
        lines = []
        connection = UnixConnection(agent.socket)
        connection.request("POST", "/v1/models/m/warm", "{}",
                           {"Accept": "application/x-ndjson"})
        for line in connection.getresponse():
            lines.append(json.loads(line))
        assert lines[0]["joined"] is True and lines[0]["job"] == first["id"], lines[0]
        assert lines[-1]["state"] == "done" and lines[-1]["model"]["state"] == "warm", lines[-1]
        done = [line["done_bytes"] for line in lines]
        assert done == sorted(done) and len(set(done)) > 2, done
        agent.stop()


def a_job_is_cancelled(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 256 * MIB)
    make_cold(path)
    slow = config(folder) + '\n[stream]\nmax_bandwidth = "16MiB"\n'
    with Agent(build, folder, slow) as agent:
        _, job = agent.call("POST", "/v1/models/m/warm", {})
        answers = []
        waiter = threading.Thread(
            target=lambda: answers.append(agent.call("POST", "/v1/models/m/warm", {"wait": True})))
        waiter.start()
        until("the job to run", lambda: agent.get("/v1/jobs")["jobs"][0]["state"] == "running")
        status, body = agent.call("DELETE", f"/v1/jobs/{job['id']}")
        assert status == 200, body
        waiter.join(30)
        assert answers[0][0] == 409 and answers[0][1]["error"]["code"] == "cancelled", answers
        until("the job to end", lambda: agent.get("/v1/jobs")["jobs"][0]["state"] == "cancelled")
        assert agent.model("m")["tiers"]["page-cache"]["hold"] is None
        agent.stop()


def shared_files_count_once(build, folder):
    path = folder / "m.gguf"
    size = write_gguf(path, 64 * MIB)
    os.link(path, folder / "same.gguf")
    text = config(folder) + f"""
[[model]]
name = "twin"
source = "{folder / 'same.gguf'}"
"""
    with Agent(build, folder, text) as agent:
        agent.ctl("warm", "m")
        agent.ctl("warm", "twin")
        assert agent.get("/v1/status")["tiers"]["page-cache"]["used_bytes"] == size
        # What the other model still wants is not given back.
        agent.ctl("drop", "m")
        assert resident(path) == pages(size)
        assert agent.get("/v1/status")["tiers"]["page-cache"]["used_bytes"] == size
        agent.ctl("drop", "twin")
        assert resident(path) == 0
        assert agent.get("/v1/status")["tiers"]["page-cache"]["used_bytes"] == 0
        agent.stop()


def keep_pages_only_lets_go(build, folder):
    path = folder / "m.gguf"
    size = write_gguf(path, 64 * MIB)
    with Agent(build, folder, config(folder)) as agent:
        agent.ctl("warm", "m")
        agent.ctl("drop", "m", "--keep-pages")
        assert resident(path) == pages(size)
        assert agent.model("m")["tiers"]["page-cache"]["hold"] is None
        make_cold(path)
        assert resident(path) == 0  # nothing maps it any longer
        agent.stop()


def the_budget_and_the_headroom_are_kept(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 64 * MIB)
    text = config(folder).replace('ram = "80%"', 'ram = "32MiB"')
    with Agent(build, folder, text) as agent:
        done = agent.ctl("warm", "m", check=False)
        assert done.returncode == 1 and "no_budget" in done.stderr, done
        agent.configure(config(folder).replace("1GiB", "100%"))
        agent.ctl("reload")
        done = agent.ctl("warm", "m", check=False)
        assert done.returncode == 1 and "no_headroom" in done.stderr, done
        assert subprocess.run(["test", "-S", agent.socket]).returncode == 0
        agent.stop()


def copies_are_pointed_out(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 4 * MIB)
    shutil.copy(path, folder / "copy.gguf")
    os.link(path, folder / "link.gguf")
    text = config(folder)
    for name in ("copy", "link"):
        text += f"""
[[model]]
name = "{name}"
source = "{folder / name}.gguf"
"""
    with Agent(build, folder, text) as agent:
        notes = until("notes", lambda: agent.get("/v1/status")["notes"])
        assert any("looks like a copy of" in note for note in notes), notes
        assert any("counts once" in note for note in notes), notes
        assert "looks like a copy of" in agent.ctl("status").stdout
        agent.stop()


main([four_gib_from_cold, locked_survives_drop_caches, only_what_is_missing_is_read,
      a_second_warm_joins_the_first, a_job_is_cancelled, shared_files_count_once,
      keep_pages_only_lets_go, copies_are_pointed_out, the_budget_and_the_headroom_are_kept])
