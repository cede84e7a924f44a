#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A model on each kind of file system that a home server has: warmed, held, evicted, let go of."""
import contextlib
import os
import shutil
import subprocess

from harness import (MIB, Agent, loop_mount, main, mincore_resident, need_root, pages, until,
                     write_gguf)

SIZE = 24 * MIB


def config(path, root, hold):
    return f"""
[agent]
allow_roots = ["{root}"]
[budget]
ram_headroom = "1GiB"
[[model]]
name = "m"
source = "{path}"
hold = "{hold}"
"""


def evict(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def told(agent):
    """What the API says is resident; nullopt has to have its reason."""
    model = agent.model("m")
    bytes_ = model["tiers"]["page-cache"]["resident_bytes"]
    if bytes_ is None:
        assert "cannot be known" in " ".join(model["explain"]), model["explain"]
    return bytes_


def agrees(agent, path):
    """The API and mincore say the same of each state that the file is brought to."""
    said = told(agent)
    assert said is None or pages(said) == mincore_resident(path), (said, mincore_resident(path))


def held_as(build, folder, path, hold, evictable):
    size = os.path.getsize(path)
    evict(path)
    with Agent(build, folder, config(path, os.path.dirname(path), hold)) as agent:
        agent.until_state("m", "cold" if evictable else "warm")
        agent.ctl("warm", "m", "--strict")
        model = agent.model("m")
        held = model["tiers"]["page-cache"]
        assert model["state"] == "warm" and held["hold"] == hold, model
        assert held["locked_bytes"] == (size if hold == "locked" else 0), held
        assert agent.smaps_locked(path) == (pages(size) if hold == "locked" else 0)
        assert mincore_resident(path) == pages(size), (mincore_resident(path), size)
        agrees(agent, path)
        evict(path)  # what is mapped or locked stays
        assert mincore_resident(path) == pages(size), mincore_resident(path)
        agrees(agent, path)
        model = agent.call("POST", "/v1/models/m/drop", {})[1]
        assert model["tiers"]["page-cache"]["hold"] is None, model
        assert mincore_resident(path) == (0 if evictable else pages(size)), mincore_resident(path)
        agrees(agent, path)
        agent.stop()


def evicted_and_back(build, folder, path):
    size = os.path.getsize(path)
    with Agent(build, folder, config(path, os.path.dirname(path), "cached")) as agent:
        agent.ctl("warm", "m")
        assert mincore_resident(path) == pages(size)
        evict(path)
        assert mincore_resident(path) == 0
        until("the eviction to be told", lambda: "model.evicted" in agent.event_types("m"))
        event = [e for e in agent.events() if e["type"] == "model.evicted"][0]
        assert event["bytes"] == size, (event, size)
        until("it to be back", lambda: mincore_resident(path) == pages(size) and
              agent.model("m")["state"] == "warm", 90)
        assert agent.model("m")["evictions"]["count"] >= 1
        agent.stop()


def exercise(build, folder, path, evictable=True):
    print(f"   {path}", flush=True)
    held_as(build, folder, path, "mapped", evictable)
    held_as(build, folder, path, "locked", evictable)
    if evictable:
        evicted_and_back(build, folder, path)


@contextlib.contextmanager
def mounted(folder, name, mkfs, megabytes, options=""):
    if shutil.which(mkfs[0]) is None:
        print(f"left out, needs {mkfs[0]}: {name}", flush=True)
        yield None
        return
    try:
        point, undo = loop_mount(folder, name, mkfs, megabytes, options)
    except subprocess.CalledProcessError as failure:
        print(f"left out, cannot be mounted here: {name}: {failure}", flush=True)
        yield None
        return
    try:
        yield point
    finally:
        undo()


@contextlib.contextmanager
def overlay(folder, name, lower):
    point, upper, work = folder / name, folder / (name + ".up"), folder / (name + ".work")
    for path in (point, upper, work):
        os.makedirs(path)
    done = subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                           f"lowerdir={lower},upperdir={upper},workdir={work}", point],
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(f"left out, cannot be mounted here: {name}: {done.stderr.strip()}", flush=True)
        yield None
        return
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", point], check=False)


def on_each_disk(exercise):
    """A test, exercise(build, folder, mount point), for each file system that disks have."""
    def on(name, mkfs, megabytes):
        def test(build, folder):
            with mounted(folder, name, mkfs, megabytes) as point:
                if point:
                    exercise(build, folder, point)
        test.__name__ = name
        return test
    return [on("ext4", ["mkfs.ext4", "-q", "-F"], 128), on("xfs", ["mkfs.xfs", "-q"], 400),
            on("btrfs", ["mkfs.btrfs", "-q"], 400)]


def ext4(build, folder):
    with mounted(folder, "ext4", ["mkfs.ext4", "-q", "-F"], 128) as point:
        if point:
            write_gguf(point + "/m.gguf", SIZE)
            exercise(build, folder, point + "/m.gguf")


def xfs(build, folder):
    with mounted(folder, "xfs", ["mkfs.xfs", "-q"], 400) as point:
        if point:
            write_gguf(point + "/m.gguf", SIZE)
            exercise(build, folder, point + "/m.gguf")


def btrfs_subvolumes(build, folder):
    """Two subvolumes have two st_dev; a snapshot has the same inode numbers in another."""
    with mounted(folder, "btrfs", ["mkfs.btrfs", "-q"], 400) as point:
        if not point:
            return
        for name in ("one", "two"):
            subprocess.run(["btrfs", "-q", "subvolume", "create", f"{point}/{name}"], check=True)
        write_gguf(point + "/one/m.gguf", SIZE)
        write_gguf(point + "/two/m.gguf", SIZE, seed=2)
        exercise(build, folder, point + "/one/m.gguf")
        exercise(build, folder, point + "/two/m.gguf")
        subprocess.run(["btrfs", "-q", "subvolume", "snapshot", point + "/one", point + "/snap"],
                       check=True)
        one, snap = point + "/one/m.gguf", point + "/snap/m.gguf"
        assert os.stat(one).st_ino == os.stat(snap).st_ino
        text = config(one, point, "mapped") + f'[[model]]\nname = "snap"\nsource = "{snap}"\n'
        for path in (one, snap):
            evict(path)
        with Agent(build, folder, text) as agent:
            agent.ctl("warm", "m")
            assert mincore_resident(snap) == 0
            agent.ctl("warm", "snap")
            size = os.path.getsize(one)
            used = agent.get("/v1/status")["tiers"]["page-cache"]["used_bytes"]
            assert used == 2 * size, (used, size)
            agent.ctl("drop", "m")
            assert mincore_resident(one) == 0 and mincore_resident(snap) == pages(size)
            agent.stop()


def btrfs_compressed(build, folder):
    with mounted(folder, "zbtrfs", ["mkfs.btrfs", "-q"], 400, ",compress-force=zstd") as point:
        if not point:
            return
        path = point + "/m.gguf"
        write_gguf(path, SIZE)
        with open(path, "r+b") as file:  # a part that can be compressed, behind the header
            file.seek(MIB)
            file.write(b"\0\1" * (8 * MIB))
            os.fsync(file.fileno())
        exercise(build, folder, path)


def overlay_on_the_same(build, folder):
    os.makedirs(folder / "lower")
    write_gguf(folder / "lower/m.gguf", SIZE)
    with overlay(folder, "over", folder / "lower") as point:
        if point:
            exercise(build, folder, point + "/m.gguf")
            write_gguf(point + "/upper.gguf", SIZE)  # in the upper layer
            exercise(build, folder, point + "/upper.gguf")


def overlay_on_another(build, folder):
    with mounted(folder, "below", ["mkfs.xfs", "-q"], 400) as below:
        if not below:
            return
        write_gguf(below + "/m.gguf", SIZE)
        with overlay(folder, "over", below) as point:
            if point:
                exercise(build, folder, point + "/m.gguf")


def tmpfs(build, folder):
    """Its files are memory already: warm from the start, and never to be evicted."""
    point = folder / "tmpfs"
    os.makedirs(point)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", point], check=True)
    try:
        write_gguf(point + "/m.gguf", SIZE)
        exercise(build, folder, point + "/m.gguf", evictable=False)
    finally:
        subprocess.run(["umount", "-l", point], check=False)


if __name__ == "__main__":
    need_root()
    main([ext4, xfs, btrfs_subvolumes, btrfs_compressed, overlay_on_the_same, overlay_on_another,
          tmpfs])
