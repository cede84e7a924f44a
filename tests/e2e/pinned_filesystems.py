#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a runtime reads of a copy in pinned RAM is the source's SHA-256, through every way to it and from
every file system; and the source stays cold, the copy is of huge pages, the agent no larger."""
import hashlib
import os
import random
import shutil
import subprocess

from filesystems import mounted, on_each_disk, overlay
from harness import (GIB, MIB, Agent, main, make_cold, meminfo, mincore_resident, own_namespace,
                     until)

SIZES = (1, 4095, 4096, 4097, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 40 * MIB + 5)
HUGE = 2 * MIB


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_random(path, size, compressible=False):
    """Every MiB is another one, so that no two can be taken for each other."""
    dice = random.Random(size)
    block = dice.randbytes(MIB // 2) + (b"\0" * (MIB // 2) if compressible else
                                        dice.randbytes(MIB // 2))
    with open(path, "wb") as file:
        for number in range(size // MIB + 1):
            part = number.to_bytes(4, "little") + block[4:]
            file.write(part[:min(MIB, size - number * MIB)])
        file.flush()
        os.fsync(file.fileno())


def config(root, paths, budget="512MiB"):
    text = f'[agent]\nallow_roots = ["{root}"]\n[budget]\nram = "{budget}"\nram_headroom = "1GiB"\n'
    for path in paths:
        text += f'[[model]]\nname = "{os.path.basename(path)}"\nsource = "{path}"\n'
    # Nothing is no model, but a file without bytes may belong to one.
    return text + f'also = ["{root}/empty"]\n'


def huge_pages(agent):
    """Whether the kernel gives its tmpfs any."""
    doctor = {each["name"]: each for each in agent.get("/v1/doctor")["capabilities"]}
    given = "no huge pages" not in doctor["pinned-ram"]["reason"]
    if not given:
        print(f"   no huge pages here: {doctor['pinned-ram']['reason']}", flush=True)
    return given


def refusals():
    """How often the kernel had no huge page for a file, since its boot: memory may be in pieces."""
    with open("/proc/vmstat") as file:
        return next((int(line.split()[1]) for line in file
                     if line.startswith("thp_file_fallback ")), 0)


def mapped_by_huge_pages(agent):
    """Of all copies, as the kernel says it of the agent's mappings."""
    sum_ = 0
    copy = False
    with open(f"/proc/{agent.process.pid}/smaps") as file:
        for line in file:
            if not line.split()[0].endswith(":"):
                copy = "/pinned/.copies/" in line
            elif copy and line.startswith("ShmemPmdMapped:"):
                sum_ += int(line.split()[1]) * 1024
    return sum_


def every_way_leads_to_the_bytes(agent, folder, name, expected):
    copy = agent.ctl("path", name).stdout.strip()
    assert copy.startswith(agent.run_dir + "/pinned/"), copy
    assert sha256(copy) == expected, (name, "path")
    bind = folder / "bind"
    assert sha256(copy.replace(agent.run_dir + "/pinned", bind)) == expected, (name, "bind")
    said = agent.ctl("run", name, "--", "sha256sum", "-b", "{}").stdout
    assert said.split()[0] == expected, (name, "run", said)


def bind_read_only(agent, folder):
    """As a container has the folder."""
    bind = folder / "bind"
    os.makedirs(bind, exist_ok=True)
    subprocess.run(["mount", "--bind", agent.run_dir + "/pinned", bind], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", bind], check=True)
    return bind


def exercise(build, folder, root, sizes=SIZES, budget="512MiB", compressible=False):
    print(f"   {root}", flush=True)
    paths = [os.path.join(root, f"{size}.bin") for size in sizes]
    for path, size in zip(paths, sizes):
        if not os.path.exists(path):
            write_random(path, size, compressible)
    write_random(os.path.join(root, "empty"), 0)
    expected = {path: sha256(path) for path in paths}
    with Agent(build, folder, config(root, paths, budget)) as agent:
        until("all to be known", lambda: all(
            agent.model(os.path.basename(path))["bytes"] == size for path, size in
            zip(paths, sizes)))
        for path in paths:
            make_cold(path)
        anonymous = agent.status_field("RssAnon")
        refused = refusals()
        for path in paths:
            agent.ctl("warm", os.path.basename(path), "--tier", "pinned-ram")
        grown = agent.status_field("RssAnon") - anonymous
        assert grown < min(sum(sizes) // 4, 16 * MIB), f"the agent grew by {grown}"
        for path, size in zip(paths, sizes):
            assert mincore_resident(path) == 0, (path, mincore_resident(path))
        if huge_pages(agent):
            told = sum(agent.model(os.path.basename(path))["tiers"]["pinned-ram"]["huge_bytes"]
                       for path in paths)
            refused = (refusals() - refused) * HUGE
            if refused > 0:
                print(f"   the kernel had no huge pages for {refused // MIB} MiB", flush=True)
            wanted = sum(size // HUGE * HUGE for size in sizes) - refused
            assert told >= wanted and mapped_by_huge_pages(agent) >= wanted, (told, wanted)
        bind = bind_read_only(agent, folder)
        for path in paths:
            every_way_leads_to_the_bytes(agent, folder, os.path.basename(path), expected[path])
            assert mincore_resident(path) == 0, path
        empty = os.path.join(agent.run_dir, "pinned", os.path.basename(paths[-1]),
                             "also/empty")
        assert os.path.getsize(empty) == 0 and sha256(empty) == hashlib.sha256().hexdigest()
        subprocess.run(["umount", bind], check=True)
        for path in paths:
            agent.ctl("drop", os.path.basename(path))
        agent.stop()


def btrfs_compressed(build, folder):
    with mounted(folder, "zbtrfs", ["mkfs.btrfs", "-q"], 400, ",compress-force=zstd") as point:
        if point:
            exercise(build, folder, point, compressible=True)


def overlayfs(build, folder):
    """Half of the files lie in its lower layer, half in the upper."""
    os.makedirs(folder / "lower")
    for size in SIZES[::2]:
        write_random(folder / f"lower/{size}.bin", size)
    with overlay(folder, "over", folder / "lower") as point:
        if point:
            exercise(build, folder, point)


def larger_than_two_gib(build, folder):
    size = 3 * GIB + 5
    free, disk = meminfo("MemAvailable"), shutil.disk_usage(folder.path).free
    if free < 8 * GIB or disk < 5 * GIB:
        print(f"left out, needs 8 GiB of memory and 5 GiB of disk: {free >> 20} and {disk >> 20} MiB "
              "are free", flush=True)
        return
    os.makedirs(folder / "large")
    exercise(build, folder, folder / "large", (size,), budget="4GiB")


if __name__ == "__main__":
    own_namespace()
    main([*on_each_disk(exercise), btrfs_compressed, overlayfs, larger_than_two_gib])
