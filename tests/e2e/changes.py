#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Model files that are rewritten, replaced, grown, deleted, unmounted or late, while held."""
import os
import subprocess

from harness import (MIB, Agent, loop_mount, main, make_cold, pages, resident, until, write_gguf)


def config(path, root, hold="locked"):
    return f"""
[agent]
allow_roots = ["{root}"]
[budget]
ram_headroom = "1GiB"
[[model]]
name = "m"
source = "{path}"
hold = "{hold if os.geteuid() == 0 else 'mapped'}"
preload = "boot"
"""


def warm_again(agent, path, after):
    """The new content is warm and held, and the change was told."""
    def check():
        model = agent.model("m")
        held = model["tiers"]["page-cache"]
        fresh = model["state"] == "warm" and model["bytes"] == os.path.getsize(path)
        return fresh and held["hold"] is not None and resident(path) == pages(model["bytes"])
    until("the new content to be warm and held", check)
    types = [event["type"] for event in agent.events(after)]
    assert "model.changed" in types, types


def last_seq(agent):
    return max([event["seq"] for event in agent.events()], default=0)


def replaced_by_rename(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 32 * MIB)
    with Agent(build, folder, config(path, folder.path)) as agent:
        agent.until_state("m", "warm")
        old = os.open(path, os.O_RDONLY)
        seq = last_seq(agent)
        write_gguf(folder / "new", 48 * MIB, seed=2)
        os.rename(folder / "new", path)
        warm_again(agent, path, seq)
        # Nothing of the old file is kept: no mapping, no descriptor, no lock.
        maps = open(f"/proc/{agent.process.pid}/maps").read()
        assert "(deleted)" not in maps, maps
        for fd in os.listdir(f"/proc/{agent.process.pid}/fd"):
            assert "(deleted)" not in os.readlink(f"/proc/{agent.process.pid}/fd/{fd}")
        os.close(old)
        agent.stop()


def rewritten_in_place(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 32 * MIB)
    with Agent(build, folder, config(path, folder.path)) as agent:
        agent.until_state("m", "warm")
        seq = last_seq(agent)
        write_gguf(path, 32 * MIB, seed=3)
        warm_again(agent, path, seq)
        agent.stop()


def grown(build, folder):
    path = folder / "m.bin"
    with open(path, "wb") as file:
        file.write(os.urandom(8 * MIB))
    with Agent(build, folder, config(path, folder.path)) as agent:
        agent.until_state("m", "warm")
        seq = last_seq(agent)
        with open(path, "ab") as file:
            file.write(os.urandom(8 * MIB))
        warm_again(agent, path, seq)
        agent.stop()


def deleted_and_late(build, folder):
    path = folder / "m.gguf"
    with Agent(build, folder, config(path, folder.path)) as agent:
        assert agent.until_state("m", "missing")["last_error"]["code"] == "source_not_found"
        size = write_gguf(path, 32 * MIB)
        agent.until_state("m", "warm")
        assert agent.model("m")["bytes"] == size
        free = os.statvfs(folder.path).f_bfree
        os.unlink(path)
        agent.until_state("m", "missing")
        assert "model.missing" in agent.event_types("m")
        # Its blocks are free again: nobody keeps the deleted file.
        until("the blocks to be free",
              lambda: os.statvfs(folder.path).f_bfree - free > 24 * MIB / 4096)
        write_gguf(path, 16 * MIB)
        agent.until_state("m", "warm")
        agent.stop()


def a_folder_that_appears_late(build, folder):
    path = folder / "a/b/c/m.gguf"
    with Agent(build, folder, config(path, folder.path)) as agent:
        agent.until_state("m", "missing")
        os.makedirs(folder / "a/b/c")
        write_gguf(path, 4 * MIB)
        agent.until_state("m", "warm")
        agent.stop()


def a_truncated_file_is_let_go_of(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 32 * MIB)
    with Agent(build, folder, config(path, folder.path)) as agent:
        agent.until_state("m", "warm")
        os.truncate(path, 8 * MIB)
        model = agent.until_state("m", "error")
        assert model["last_error"]["code"] == "truncated", model
        assert model["tiers"]["page-cache"]["hold"] is None
        agent.stop()


def unmounted(build, folder):
    if os.geteuid() != 0:
        print("left out, needs root: unmounted")
        return
    mount_point, undo = loop_mount(folder, "disk", ["mkfs.ext4", "-q", "-F"], 96)
    path = os.path.join(mount_point, "m.gguf")
    try:
        write_gguf(path, 32 * MIB)
        with Agent(build, folder, config(path, folder.path)) as agent:
            agent.until_state("m", "warm")
            # A lazy unmount takes the name away while the file is mapped.
            subprocess.run(["umount", "-l", mount_point], check=True)
            agent.until_state("m", "missing")

            def let_go():
                maps = open(f"/proc/{agent.process.pid}/maps").read()
                return "m.gguf" not in maps
            until("the mapping to go", let_go)
            subprocess.run(["mount", "-o", "loop", folder / "disk.img", mount_point], check=True)
            agent.until_state("m", "warm")
            agent.ctl("drop", "m")
            subprocess.run(["umount", mount_point], check=True)  # nothing keeps it busy
            agent.stop()
    finally:
        undo()


def reload_takes_or_keeps(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 8 * MIB)
    good = config(path, folder.path)
    with Agent(build, folder, good) as agent:
        agent.until_state("m", "warm")
        agent.configure(good.replace("preload", "prelaod"))
        done = agent.ctl("reload", check=False)
        assert done.returncode == 1 and "bad_config" in done.stderr, done
        assert "andiron.toml:" in done.stderr and "preload" in done.stderr, done.stderr
        assert agent.model("m")["state"] == "warm"
        import signal
        agent.process.send_signal(signal.SIGHUP)
        until("the refusal in the log", lambda: "stays as it was" in agent.log())
        agent.configure(good.replace('name = "m"', 'name = "renamed"'))
        agent.process.send_signal(signal.SIGHUP)
        agent_has = lambda name: agent.call("GET", f"/v1/models/{name}")[0] == 200
        until("the new name", lambda: agent_has("renamed") and not agent_has("m"))
        agent.until_state("renamed", "warm")
        agent.stop()


main([replaced_by_rename, rewritten_in_place, grown, deleted_and_late, a_folder_that_appears_late,
      a_truncated_file_is_let_go_of, unmounted, reload_takes_or_keeps])
