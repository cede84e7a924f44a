#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench-pinned.py PROGRAM COLD FILE ROUNDS NAME: one device's pinned-ram row of bench.sh.

PROGRAM is pinned_bench, COLD page_cache_bench, FILE a cold file to copy. Against the best of fio's
settings of io_uring with O_DIRECT, into huge pages too where the machine has some reserved. Memory is
ready for both: what making it ready takes is shown apart. Rounds rotate, as in bench-page-cache.py.
"""
import json
import os
import statistics
import subprocess
import sys
import time

PAUSE = 4  # see bench-page-cache.py


def free_huge_pages():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("HugePages_Free:"))


def fio(path, block, depth, memory):
    words = ["fio", "--name=bench", f"--filename={path}", "--rw=read", f"--bs={block}",
             "--ioengine=io_uring", "--direct=1", "--fixedbufs=1", "--invalidate=0", "--readonly",
             "--thread", "--output-format=json", f"--iodepth={depth}", f"--iomem={memory}",
             f"--size={os.path.getsize(path)}"]
    done = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    job = json.loads(done)["jobs"][0]
    seconds = job["read"]["runtime"] / 1000
    return seconds, (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds, 0


def andiron(program, path):
    done = subprocess.run([program, path], check=True, capture_output=True, text=True).stdout
    read, cpu, prefault, _ = done.split()
    return float(read) / 1e3, float(cpu) / 1e3, float(prefault) / 1e3


def main():
    program, cold, path, rounds, name = sys.argv[1:6]
    memories = ["malloc"]
    if free_huge_pages() * 2 >= 64:
        memories.append("mmaphuge")
    contenders = {"andiron": lambda: andiron(program, path)}
    for block, depth in (("1M", 16), ("2M", 16), ("4M", 8)):
        for memory in memories:
            contenders[f"fio {block} x {depth}, {memory}"] = (
                lambda block=block, depth=depth, memory=memory: fio(path, block, depth, memory))
    names = list(contenders)
    kept = []
    for turn in range(int(rounds)):
        results = {}
        turn %= len(names)
        for contender in names[turn:] + names[:turn]:
            subprocess.run([cold, "cold", path], check=True, capture_output=True)
            time.sleep(PAUSE)
            results[contender] = contenders[contender]()
        kept.append(results)

    size = os.path.getsize(path)
    print(f"\npinned RAM from {name}: {size / 2**20:.0f} MiB, medians of {len(kept)} rounds")
    if len(memories) == 1:
        print("  (no huge pages are reserved here: fio reads into ordinary ones)")
    for contender in names:
        seconds = statistics.median(r[contender][0] for r in kept)
        cpu = statistics.median(r[contender][1] for r in kept)
        print(f"  {contender:<24}{seconds:9.3f} s{size / seconds / 1e6:8.0f} MB/s"
              f"{cpu / size * 1e9:9.3f} CPU s/GB")
    prefault = statistics.median(r["andiron"][2] for r in kept)
    print(f"  making the memory ready, two threads: {prefault:.3f} s")
    speed = statistics.median(min(r[n][0] for n in names[1:]) / r["andiron"][0] for r in kept)
    cpu = statistics.median(r["andiron"][1] for r in kept) / size * 1e9
    for what, value, good, target in (
            ("speed against the best of fio's O_DIRECT", speed, speed >= 0.95, ">= 0.95"),
            ("core-seconds a GB", cpu, cpu <= 0.02, "<= 0.02")):
        print(f"  {what:<66} {value:6.3f}  {target:<8} {'met' if good else 'NOT MET'}")


if __name__ == "__main__":
    main()
