#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pinned-ram tier as its users have it: one copy that everybody reads and nobody writes, which
outlives the agent, and goes when it is dropped. Mounts are made in a namespace of the test's own."""
import errno
import hashlib
import json
import os
import random
import subprocess

from harness import (MIB, Agent, main, make_cold, meminfo, own_namespace, resident, until,
                     write_gguf)

NOBODY = 65534


def config(folder, *models):
    text = f"""
[agent]
allow_roots = ["{folder.path}"]
[budget]
ram = "2GiB"
ram_headroom = "512MiB"
"""
    for name, source, *lines in models:
        text += f'[[model]]\nname = "{name}"\nsource = "{source}"\n' + "".join(
            line + "\n" for line in lines)
    return text


PINNED = 'tier = "pinned-ram"'
BOOT = 'preload = "boot"'


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pinned(agent, name="m"):
    return agent.model(name)["tiers"]["pinned-ram"]


def memory_of(agent):
    """That its tmpfs takes, whatever else the machine does."""
    about = os.statvfs(os.path.join(agent.state_dir, "pinned"))
    return (about.f_blocks - about.f_bfree) * about.f_frsize


def until_pinned(agent, name="m"):
    return until(f"{name} to be in pinned RAM",
                 lambda: pinned(agent, name)["resident_bytes"] == agent.model(name)["bytes"] > 0
                 and pinned(agent, name))


def as_nobody(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, user=NOBODY,
                          group=NOBODY, extra_groups=[])


def open_to_all(folder):
    """So that others can reach what lies there: a test's folder is closed to them."""
    for name in (folder.path, folder / "run"):
        os.makedirs(name, exist_ok=True)
        os.chmod(name, 0o755)


def one_copy_that_all_read_and_nobody_writes(build, folder):
    open_to_all(folder)
    path = folder / "m.gguf"
    size = write_gguf(path, 64 * MIB + 12345 * 4)
    os.chmod(path, 0o644)
    make_cold(path)
    before = meminfo("Shmem")
    with Agent(build, folder, config(folder, ("m", path))) as agent:
        said = agent.ctl("path", "m", check=False)
        assert said.returncode == 1 and "--tier pinned-ram" in said.stderr, said
        said = agent.ctl("warm", "m", "--tier", "pinned-ram").stdout
        assert "in pinned RAM" in said, said
        assert resident(path) == 0, "the source went through the page cache"
        copy = agent.ctl("path", "m").stdout.strip()
        assert copy == os.path.join(agent.run_dir, "pinned/m/m.gguf"), copy
        assert sha256(copy) == sha256(path)
        assert meminfo("Shmem") - before < size + 8 * MIB

        tier = pinned(agent)
        assert tier["resident_bytes"] == size and tier["path"] == copy, tier
        assert tier["locked_bytes"] == size, tier
        doctor = {c["name"]: c for c in agent.get("/v1/doctor")["capabilities"]}["pinned-ram"]
        if "no huge pages" not in doctor["reason"]:
            assert tier["huge_bytes"] >= size // (2 * MIB) * 2 * MIB, tier
        used = agent.get("/v1/status")["tiers"]
        assert used["pinned-ram"]["used_bytes"] == size, used
        assert used["page-cache"]["used_bytes"] == size, used  # one budget for the two

        # Root, the owner and the rest alike, through every way in.
        for change in (lambda: open(copy, "r+b"), lambda: os.truncate(copy, 0),
                       lambda: os.chmod(copy, 0o666), lambda: os.unlink(copy)):
            try:
                change()
                raise AssertionError("the copy was changed")
            except OSError as error:
                assert error.errno == errno.EROFS, error
        assert as_nobody("sha256sum", copy).returncode == 0
        assert as_nobody("ls", os.path.join(agent.run_dir, "pinned/.copies")).returncode != 0
        assert as_nobody("ls", os.path.join(agent.state_dir, "pinned")).returncode != 0

        done = agent.ctl("run", "m", "--", "sha256sum", "-b", "{}")
        assert done.stdout.split()[0] == sha256(path), done.stdout
        done = agent.ctl("run", "m", "--", "sh", "-c", "exit 7", check=False)
        assert done.returncode == 7, done
        assert agent.ctl("run", "nobody", "--", "true", check=False).returncode == 1
        explained = agent.ctl("explain", "m").stdout
        assert copy in explained, explained

        agent.ctl("drop", "m")
        assert not os.path.exists(copy)
        until("its memory to come back", lambda: meminfo("Shmem") - before < 8 * MIB)
        assert agent.get("/v1/status")["tiers"]["pinned-ram"]["used_bytes"] == 0
        # `run` brings it in by itself.
        assert agent.ctl("run", "m", "--", "sha256sum", "{}").stdout.split()[0] == sha256(path)
        # The other tier takes its place.
        agent.ctl("warm", "m", "--tier", "page-cache")
        model = agent.model("m")
        assert model["tiers"]["pinned-ram"]["resident_bytes"] == 0, model
        assert model["tiers"]["page-cache"]["hold"] == "mapped", model
        assert not os.path.exists(copy)
        agent.stop()


def who_may_not_see_the_source_sees_no_copy(build, folder):
    open_to_all(folder)
    home = folder / "home"
    os.makedirs(home)
    closed = os.path.join(home, "m.gguf")
    write_gguf(closed, MIB)
    os.chmod(closed, 0o644)
    os.chmod(home, 0o700)
    mine = folder / "mine.gguf"
    write_gguf(mine, MIB)
    os.chmod(mine, 0o640)
    os.chown(mine, 1234, NOBODY)
    with Agent(build, folder, config(folder, ("m", closed, PINNED, BOOT),
                                     ("mine", mine, PINNED, BOOT))) as agent:
        copy = until_pinned(agent)["path"]
        assert as_nobody("cat", copy).returncode != 0
        copy = until_pinned(agent, "mine")["path"]
        assert os.stat(copy).st_uid == 1234 and os.stat(copy).st_mode & 0o777 == 0o440
        assert as_nobody("sha256sum", copy).returncode == 0  # by its group
        agent.stop()


def a_killed_agent_loses_nothing(build, folder):
    path = folder / "m.gguf"
    size = write_gguf(path, 48 * MIB + 4)
    with Agent(build, folder, config(folder, ("m", path))) as agent:
        agent.ctl("warm", "m", "--tier", "pinned-ram")
        copy = pinned(agent)["path"]
        inode = os.stat(copy).st_ino
        until("its checksums", lambda: "xxh3" in open(manifest_of(agent)).read())
        for how in (agent.kill, agent.stop):
            how()
            assert sha256(copy) == sha256(path)  # also while no agent runs
            make_cold(path)
            agent.start()
            assert until_pinned(agent)["path"] == copy
            assert os.stat(copy).st_ino == inode, "it was made anew"
            assert resident(path) == 0, "the source was read again"
            assert agent.model("m")["last_load"]["bytes"] == 0
            assert pinned(agent)["locked_bytes"] == size
        # Where the configuration says another tier, and has it loaded at the start.
        agent.configure(config(folder, ("m", path, BOOT)))
        agent.call("POST", "/v1/reload")
        agent.kill()
        agent.start()
        until_pinned(agent)
        assert os.stat(copy).st_ino == inode, "it was made anew"
        # Bytes that are not those that were read are not served.
        agent.kill()
        with open(os.path.join(agent.state_dir, "pinned/m/m.gguf"), "r+b") as file:
            file.seek(1000)
            file.write(b"?")
        agent.start()
        until_pinned(agent)
        assert sha256(copy) == sha256(path)
        assert os.stat(copy).st_ino != inode
        agent.stop()


def manifest_of(agent):
    copies = os.path.join(agent.state_dir, "pinned/.copies")
    return os.path.join(copies, [name for name in os.listdir(copies) if name.endswith("json")][0])


def killed_at_any_moment(build, folder):
    names = ["a", "b", "c"]
    models = []
    for seed, name in enumerate(names):
        write_gguf(folder / f"{name}.gguf", (8 + 13 * seed) * MIB, seed)
        models.append((name, folder / f"{name}.gguf", PINNED, BOOT))
    dice = random.Random(11)
    before = meminfo("Shmem")
    with Agent(build, folder, config(folder, *models)) as agent:
        for turn in range(40):
            victim = dice.choice(names)
            works = [agent.begin_ctl("drop", victim), agent.begin_ctl("warm", victim, "--tier",
                                                                      "pinned-ram")]
            if turn % 4 == 0:
                write_gguf(folder / "new", (8 + turn % 5) * MIB, turn)
                os.rename(folder / "new", folder / f"{victim}.gguf")
            try:
                agent.process.wait(dice.random() * 0.3)
            except subprocess.TimeoutExpired:
                pass
            agent.kill()
            for work in works:
                work.communicate(timeout=60)
            agent.start()
        total = 0
        for name in names:
            agent.ctl("warm", name, "--tier", "pinned-ram")
            copy = until_pinned(agent, name)["path"]
            assert sha256(copy) == sha256(folder / f"{name}.gguf"), name
            total += os.path.getsize(copy)
        status = agent.get("/v1/status")["tiers"]["pinned-ram"]
        assert status["used_bytes"] == total, (status, total)
        # What nobody holds goes, once all is known again.
        until("leftovers to be gone", lambda: meminfo("Shmem") - before < total + 16 * MIB)
        copies = os.path.join(agent.state_dir, "pinned/.copies")
        until("three copies", lambda: len([n for n in os.listdir(copies) if "." not in n]) == 3)
        assert not [n for n in os.listdir(copies) if n.endswith(".part")], os.listdir(copies)
        agent.stop()


def what_nobody_wants_any_longer_goes(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 16 * MIB)
    before = meminfo("Shmem")
    with Agent(build, folder, config(folder, ("m", path, PINNED, BOOT))) as agent:
        copy = until_pinned(agent)["path"]
        agent.stop()
        agent.configure(config(folder))
        agent.start()
        until("the copy to go", lambda: not os.path.exists(copy))
        until("its memory to come back", lambda: meminfo("Shmem") - before < 4 * MIB)
        agent.stop()


def a_changed_file_gets_a_new_copy(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 8 * MIB, seed=1)
    with Agent(build, folder, config(folder, ("m", path, PINNED, BOOT))) as agent:
        copy = until_pinned(agent)["path"]
        old = sha256(path)
        with open(copy, "rb") as opened:
            write_gguf(folder / "new", 12 * MIB, seed=2)
            os.rename(folder / "new", path)
            until("the new bytes", lambda: os.path.exists(copy) and sha256(copy) == sha256(path))
            assert hashlib.sha256(opened.read()).hexdigest() == old, "the old copy was changed"
        assert "model.changed" in agent.event_types("m")
        os.unlink(path)
        until("the copy of a file that is gone to go", lambda: not os.path.exists(copy))
        agent.stop()


def models_share_a_file_and_folders_keep_their_names(build, folder):
    store = folder / "org"
    os.makedirs(os.path.join(store, "sub"))
    header = json.dumps({"w": {"dtype": "F32", "shape": [1024], "data_offsets": [0, 4096]}})
    for name in ("model.safetensors", "sub/other.safetensors"):
        with open(os.path.join(store, name), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header.encode() + os.urandom(4096))
    shared = folder / "m.gguf"
    size = write_gguf(shared, 16 * MIB)
    with Agent(build, folder, config(folder, ("a", shared, PINNED, BOOT), ("b", shared, PINNED,
                                                                           BOOT),
                                     ("hub", store, PINNED, BOOT))) as agent:
        a, b = until_pinned(agent, "a")["path"], until_pinned(agent, "b")["path"]
        assert a != b and os.stat(a).st_ino == os.stat(b).st_ino
        hub = until_pinned(agent, "hub")["path"]
        for name in ("model.safetensors", "sub/other.safetensors"):
            assert sha256(os.path.join(hub, name)) == sha256(os.path.join(store, name))
        used = agent.get("/v1/status")["tiers"]["pinned-ram"]["used_bytes"]
        assert used == size + agent.model("hub")["bytes"], used
        agent.ctl("drop", "a")
        assert not os.path.exists(a) and sha256(b) == sha256(shared)
        # A source that nobody configured is a model by its own name.
        adhoc = folder / "adhoc.gguf"
        write_gguf(adhoc, MIB)
        agent.ctl("warm", adhoc, "--tier", "pinned-ram")
        copy = pinned(agent, adhoc)["path"]
        assert sha256(copy) == sha256(adhoc) and copy.startswith(
            os.path.join(agent.run_dir, "pinned/%2F")), copy
        agent.stop()


def copies_are_no_sources_and_all_can_be_dropped(build, folder):
    size = sum(write_gguf(folder / f"{name}.gguf", 8 * MIB, seed) for seed, name in enumerate("ab"))
    models = [(name, folder / f"{name}.gguf", PINNED, BOOT) for name in "ab"]
    with Agent(build, folder, config(folder, *models)) as agent:
        copy = until_pinned(agent, "a")["path"]
        until_pinned(agent, "b")
        used = agent.get("/v1/status")["tiers"]["pinned-ram"]["used_bytes"]
        assert used == size, used
        os.symlink(copy, folder / "link.gguf")
        agent.configure(config(folder, *models, ("link", folder / "link.gguf")))
        agent.ctl("reload")
        for tier in ("pinned-ram", "page-cache"):
            refused = agent.ctl("warm", "link", "--tier", tier, check=False)
            assert refused.returncode == 1 and "bad_request" in refused.stderr, refused
            assert "is a copy that this agent made" in refused.stderr, refused
        said = agent.ctl("drop", "--all").stdout
        assert len(said.splitlines()) == 3, said
        assert not os.path.exists(copy)
        until("all memory to come back", lambda: agent.get("/v1/status")["tiers"]["pinned-ram"][
            "used_bytes"] == 0)
        agent.stop()


def what_does_not_fit_is_refused(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 64 * MIB)
    before = meminfo("Shmem")
    with Agent(build, folder, config(folder, ("m", path)).replace("2GiB", "32MiB")) as agent:
        refused = agent.ctl("warm", "m", "--tier", "pinned-ram", check=False)
        assert refused.returncode == 1 and "no_budget" in refused.stderr, refused
        assert meminfo("Shmem") - before < 4 * MIB
        refused = agent.ctl("warm", "m", "--tier", "vram", check=False)
        assert refused.returncode == 1 and "unavailable" in refused.stderr, refused
        agent.stop()


if __name__ == "__main__":
    own_namespace()
    main([one_copy_that_all_read_and_nobody_writes, who_may_not_see_the_source_sees_no_copy,
          a_killed_agent_loses_nothing, killed_at_any_moment, what_nobody_wants_any_longer_goes,
          a_changed_file_gets_a_new_copy, models_share_a_file_and_folders_keep_their_names,
          copies_are_no_sources_and_all_can_be_dropped, what_does_not_fit_is_refused])
