#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench-page-cache.py PROGRAM FILE TENTH ROUNDS NAME: one device's page-cache rows of bench.sh.

PROGRAM is page_cache_bench; FILE the one to fill, TENTH one of a tenth of its size on the same
device. Every contender is a process of its own: its time is that of the whole process and its CPU
seconds are the kernel's count, but for fio, which takes longer to start than to read and is believed
what it says, and where Andiron is compared with itself. The order rotates from round to round,
ratios are taken within a round, and medians over the rounds. Nine tenths are made resident as
reclaim leaves them of a file that Andiron loaded (whole folios are missing), and, the worst case,
with all that is resident in single pages, as a reader at random places leaves them. Exit status 0 whether targets are met or not; the table says it.
"""
import json
import mmap
import os
import resource
import statistics
import subprocess
import sys
import time

# A virtual machine's host takes freed pages back for about two seconds: without this pause every
# second round measures the host. And it gives them again at a price, which only those pay who fill
# the page cache: as much memory is touched and let go just before the clock starts.
PAUSE = 4
# More of all CPUs' time than this used by others disturbs a round; it is then tried again, as often
# as there are rounds in all.
DISTURBED = 0.3
# Where vmtouch reaches this share of what the device gives to O_DIRECT, the device is the limit.
SATURATED = 0.9


def touch_memory(size):
    """What is let go stays with this machine for a second or two, for the next who asks."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, size, flags=flags).close()


def total_cpu():
    """CPU seconds that this machine worked since it started, but for waiting."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(word) for word in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, program, path, tenth):
        self.program, self.path, self.tenth = program, path, tenth
        self.disturbed = False

    def quiet(self, *words):
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def run(self, words):
        """Seconds, CPU seconds, and what it printed."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy, begin = total_cpu(), time.monotonic()
        printed = self.quiet(*words)
        seconds = time.monotonic() - begin
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        others = total_cpu() - busy - cpu
        self.disturbed |= others > DISTURBED * os.cpu_count() * seconds
        return seconds, cpu, printed

    def fio(self, engine, direct):
        words = ["fio", "--name=bench", f"--filename={self.path}", "--rw=read", "--bs=1M",
                 f"--ioengine={engine}", f"--direct={direct}", "--invalidate=0", "--readonly",
                 "--thread", "--output-format=json", f"--size={os.path.getsize(self.path)}"]
        if engine != "psync":
            words.append("--iodepth=16")
        job = json.loads(self.run(words)[2])["jobs"][0]
        seconds = job["read"]["runtime"] / 1000
        return seconds, (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds

    def andiron(self, path, hold):
        return self.run([self.program, "fill", path, hold, "automatic"])[:2]

    def fill_alone(self, path, hold):
        """Without the program around it, whose start and end would hide what is compared here."""
        _, cpu, printed = self.run([self.program, "fill", path, hold, "automatic"])
        return float(printed.split()[0]) / 1000, cpu

    def cold(self, path):
        for _ in range(3):  # a page on its way to a list of the kernel's is not dropped at once
            left = int(self.quiet(self.program, "cold", path))
            if left == 0:
                return
            time.sleep(0.1)
        raise RuntimeError(f"{left} bytes of {path} stay resident: does another process map it?")

    def holes(self, how, hole):
        for _ in range(3):  # a machine short of memory takes some back meanwhile
            resident = int(self.quiet(self.program, how, self.path, str(hole)))
            share = resident / os.path.getsize(self.path)
            if 0.88 < share < 0.92:
                return
        raise RuntimeError(f"{share:.0%} of {self.path} are resident, and not nine tenths")

    def contenders(self):
        """Name -> (what prepares it, what is timed)."""
        whole, tenth = self.path, self.tenth
        mib = os.path.getsize(whole) // 2**20
        few = max(2, mib // 40 // 2 * 2)  # four holes, of whole huge folios
        cold, cold_tenth = (lambda: self.cold(whole)), (lambda: self.cold(tenth))
        return {
            "andiron, mapped": (cold, lambda: self.andiron(whole, "mapped")),
            "andiron, cached": (cold, lambda: self.andiron(whole, "cached")),
            "vmtouch -t": (cold, lambda: self.run(["vmtouch", "-q", "-t", whole])[:2]),
            "dd bs=1M": (cold, lambda: self.run(["dd", f"if={whole}", "of=/dev/null", "bs=1M"])[:2]),
            "fio psync": (cold, lambda: self.fio("psync", 0)),
            "fio io_uring": (cold, lambda: self.fio("io_uring", 0)),
            "fio O_DIRECT": (cold, lambda: self.fio("io_uring", 1)),
            **self.partly("mapped", cold_tenth, few),
            **self.partly("cached", cold_tenth, few),
        }

    def partly(self, hold, cold_tenth, few):
        def whole():
            return self.fill_alone(self.path, hold)
        return {
            f"a tenth, {hold}": (cold_tenth, lambda: self.fill_alone(self.tenth, hold)),
            f"few holes, {hold}": (lambda: self.holes("evicted", few), whole),
            f"many holes, {hold}": (lambda: self.holes("evicted", 2), whole),
            f"single pages, {hold}": (lambda: self.holes("single", 1), whole),
        }

    def round(self, names, contenders):
        self.disturbed = False
        results = {}
        for name in names:
            prepare, timed = contenders[name]
            prepare()
            time.sleep(PAUSE)
            touch_memory(os.path.getsize(self.path))
            results[name] = timed()
        return results


def measure(bench, rounds):
    contenders = bench.contenders()
    names = list(contenders)
    kept, repeats, disturbed = [], 0, 0
    while len(kept) < rounds:
        turn = (len(kept) + repeats) % len(names)
        results = bench.round(names[turn:] + names[:turn], contenders)
        if bench.disturbed and repeats < rounds:
            repeats += 1
            continue
        disturbed += bench.disturbed
        kept.append(results)
    return kept, repeats, disturbed


def ratio(rounds, slow, fast):
    """Median over the rounds of how many times as long `slow` took; `slow` is of one round."""
    return statistics.median(slow(results) / results[fast][0] for results in rounds)


def judge(what, value, target, at_least=True):
    met = value >= target if at_least else value <= target
    sign = ">=" if at_least else "<="
    print(f"  {what:<66} {value:6.2f}  {sign} {target:<5g} {'met' if met else 'NOT MET'}")


def against(rounds, whom, names, speed, target, direct):
    reached = statistics.median(r["fio O_DIRECT"][0] / min(r[name][0] for name in names)
                                for r in rounds)
    if reached < SATURATED:
        judge(f"cold: speed against {whom}", speed, target)
        return
    print(f"  {whom}: {reached:.2f} of fio O_DIRECT, and Andiron {speed:.2f} times as fast; so")
    judge("cold: speed against fio O_DIRECT", direct, 0.95)


def report(rounds, hold):
    ours = f"andiron, {hold}"
    buffered = ("dd bs=1M", "fio psync", "fio io_uring")
    print(f"\n  hold {hold}:")
    vmtouch = ratio(rounds, lambda r: r["vmtouch -t"][0], ours)
    best = ratio(rounds, lambda r: min(r[name][0] for name in buffered), ours)
    direct = ratio(rounds, lambda r: r["fio O_DIRECT"][0], ours)
    # Who comes close to the device cannot be beaten by much; then the device is what counts.
    against(rounds, "vmtouch -t", ("vmtouch -t",), vmtouch, 1.3, direct)
    against(rounds, "the best of dd and fio, buffered", buffered, best, 1.1, direct)
    cpu = statistics.median(r[ours][1] / max(r["vmtouch -t"][1], 1e-3) for r in rounds)
    judge("cold: CPU seconds against vmtouch's", cpu, 0.5, at_least=False)
    for holes in ("few holes", "many holes", "single pages"):
        judge(f"90 % resident, {holes}: time against a cold file of a tenth",
              statistics.median(r[f"{holes}, {hold}"][0] / r[f"a tenth, {hold}"][0]
                                for r in rounds), 1.5, at_least=False)


def main():
    program, path, tenth, rounds, name = sys.argv[1:6]
    bench = Bench(program, path, tenth)
    size = os.path.getsize(path)
    kept, repeats, disturbed = measure(bench, int(rounds))
    print(f"\n{name}: {size / 2**20:.0f} MiB, medians of {len(kept)} rounds"
          f" ({repeats} disturbed ones tried again, {disturbed} kept)")
    print(f"  {'':<22}{'seconds':>9}{'MB/s':>8}{'CPU s/GB':>10}")
    for contender in bench.contenders():
        seconds = statistics.median(r[contender][0] for r in kept)
        cpu = statistics.median(r[contender][1] for r in kept)
        bytes_read = size // 10 if any(
            word in contender for word in ("tenth", "holes", "single")) else size
        print(f"  {contender:<22}{seconds:9.3f}{bytes_read / seconds / 1e6:8.0f}"
              f"{cpu / bytes_read * 1e9:10.3f}")
    for hold in ("mapped", "cached"):
        report(kept, hold)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
