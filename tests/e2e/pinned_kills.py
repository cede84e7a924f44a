#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kill -9 of the agent in the middle of what the pinned-ram tier does, over and over. The next start
adopts exactly the copies that are whole, and does not read their sources again.

Usage: pinned_kills.py BUILD_DIR [ROUNDS [SEED]]    without ROUNDS, as many as a minute allows
"""
import collections
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

from harness import (MIB, Agent, Folder, loop_mount, make_cold, own_namespace, until,
                     write_gguf)
from pinned import BOOT, PINNED, config, memory_of

NAMES = ("a", "b", "c")
SECONDS = 60
SLACK = MIB  # of memory: manifests, names, and the rest of a page


def bytes_read_from(mount_point):
    number = os.stat(mount_point).st_dev
    with open(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat") as file:
        return int(file.read().split()[2]) * 512


def copy_name(path):
    """What a whole copy of the file is called: after the file's identity."""
    about = os.stat(path)
    return "-".join(f"{part:x}" for part in (about.st_dev, about.st_ino, about.st_size,
                                             about.st_mtime_ns, about.st_ctime_ns))


class Rounds:
    def __init__(self, build, folder, seed):
        self.dice = random.Random(seed)
        self.disk, _ = loop_mount(folder, "disk", ["mkfs.ext4", "-q", "-F"], 512)
        self.digests = collections.defaultdict(set)  # of all that each model ever was
        self.digest = {}
        self.version = 0
        for name in NAMES:
            self.write(name)
        self.agent = Agent(build, folder, config(folder, *(
            (name, self.source(name), PINNED, BOOT) for name in NAMES)).replace(
                folder.path, self.disk, 1))
        self.copies = os.path.join(self.agent.state_dir, "pinned/.copies")
        self.kills = collections.Counter()
        self.found = collections.Counter()  # what the kills left behind
        self.adopted = 0
        self.made = 0

    def source(self, name):
        return os.path.join(self.disk, name + ".gguf")

    def write(self, name):
        """Another version of the model, by rename, cold; known to us without reading it."""
        self.version += 1
        new = os.path.join(self.disk, "new")
        write_gguf(new, (4 + 18 * NAMES.index(name) + self.dice.randrange(3)) * MIB + 4, self.version)
        with open(new, "rb") as file:
            self.digest[name] = hashlib.file_digest(file, "sha256").hexdigest()
        self.digests[name].add(self.digest[name])
        make_cold(new)
        os.rename(new, self.source(name))

    def post(self, name, verb, body):
        """Not waited for: its agent will be killed."""
        def call():
            try:
                self.agent.call("POST", f"/v1/models/{name}/{verb}", body, timeout=10)
            except (OSError, ValueError, EOFError):
                pass
            except Exception:  # http.client's, of an answer cut short
                pass
        thread = threading.Thread(target=call)
        thread.start()
        return thread

    def listing(self):
        try:
            names = set(os.listdir(self.copies))
        except FileNotFoundError:
            names = set()
        return names | {name for name in NAMES
                        if os.path.exists(os.path.join(self.agent.run_dir, "pinned", name))}

    def until_the_folder_changes(self, times, seconds=2.0):
        """Until as many steps have been taken there: a draft, its manifest, the copy, its name."""
        end = time.monotonic() + seconds
        before = self.listing()
        while times > 0 and time.monotonic() < end:
            now = self.listing()
            if now != before:
                before = now
                times -= 1

    def pause(self, longest):
        end = time.monotonic() + self.dice.random() * longest
        while time.monotonic() < end:
            pass

    def in_a_fill(self, name):
        self.agent.call("POST", f"/v1/models/{name}/drop", {})
        thread = self.post(name, "warm", {"tier": "pinned-ram"})
        self.pause(0.03)
        return thread

    def in_a_publish(self, name):
        self.agent.call("POST", f"/v1/models/{name}/drop", {})
        thread = self.post(name, "warm", {"tier": "pinned-ram"})
        self.until_the_folder_changes(self.dice.randrange(1, 6))
        return thread

    def in_a_drop(self, name):
        thread = self.post(name, "drop", {})
        if self.dice.random() < 0.5:
            self.until_the_folder_changes(self.dice.randrange(1, 3), 0.2)
        else:
            self.pause(0.004)
        return thread

    def in_a_change(self, name):
        self.write(name)
        self.until_the_folder_changes(self.dice.randrange(1, 6))
        self.pause(0.02)

    def in_a_change_while_it_fills(self, name):
        thread = self.in_a_fill(name)
        self.write(name)
        self.pause(0.01)
        return thread

    def in_a_start(self, name):
        self.agent.kill()
        if self.dice.random() < 0.5:
            self.write(name)
        self.agent.launch()
        self.pause(0.2)

    def in_what_it_does_by_itself(self, name):
        """Checksums are made by the second, and what is nobody's goes some seconds after a start."""
        self.until_the_folder_changes(1, 15 if self.dice.random() < 0.1 else 1.2)

    def what_is_left(self):
        """Of the whole copies of what the sources are now: their inodes, by model. Nothing that a
        name leads to is in pieces, or another model's."""
        for name in NAMES:
            shown = os.path.join(self.agent.run_dir, "pinned", name)
            for each in os.listdir(shown) if os.path.isdir(shown) else []:
                with open(os.path.join(shown, each), "rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                assert digest in self.digests[name], f"{name}/{each} is no version of it"
        listing = self.listing()
        kinds = {"draft": ".part", "manifest in the making": ".new"}
        for kind, suffix in kinds.items():
            self.found[kind] += any(each.endswith(suffix) for each in listing)
        copies = {each for each in listing if "-" in each and "." not in each}
        manifests = {each[:-5] for each in listing if each.endswith(".json")}
        self.found["manifest without its copy"] += bool(manifests - copies)
        self.found["copy without a name"] += any(
            os.stat(os.path.join(self.copies, each)).st_nlink == 1 for each in copies)
        whole = {}
        for name in NAMES:
            path = os.path.join(self.copies, copy_name(self.source(name)))
            if os.path.exists(path) and os.path.exists(path + ".json"):
                whole[name] = os.stat(path).st_ino
        return whole

    def starts_with(self, whole):
        read = bytes_read_from(self.disk)
        self.agent.start()
        for name in NAMES:
            status, body = self.agent.call("POST", f"/v1/models/{name}/warm",
                                           {"tier": "pinned-ram", "wait": True})
            assert status == 200, (name, status, body)
        read = bytes_read_from(self.disk) - read
        sizes = {name: os.path.getsize(self.source(name)) for name in NAMES}
        missing = sum(size for name, size in sizes.items() if name not in whole)
        assert missing <= read < missing + 2 * MIB, (whole, missing, read)
        for name in NAMES:
            copy = self.agent.model(name)["tiers"]["pinned-ram"]["path"]
            with open(copy, "rb") as file:
                assert hashlib.file_digest(file, "sha256").hexdigest() == self.digest[name], name
            if name in whole:
                assert os.stat(copy).st_ino == whole[name], f"{name} was made anew"
        self.adopted += len(whole)
        self.made += len(NAMES) - len(whole)
        used = self.agent.get("/v1/status")["tiers"]["pinned-ram"]["used_bytes"]
        assert used == sum(sizes.values()), (used, sizes)

    def is_as_it_was(self):
        """It takes some seconds, so not in every round; until then there are leftovers."""
        sizes = [os.path.getsize(self.source(name)) for name in NAMES]
        expected = {copy_name(self.source(name)) for name in NAMES}
        expected |= {each + ".json" for each in expected}
        until("what is nobody's to be gone", lambda: set(os.listdir(self.copies)) == expected)
        until("its memory to come back", lambda: memory_of(self.agent) < sum(sizes) + SLACK)

    def at_each_step(self):
        """By strace, at the calls that change the folder, of which each thread has its own count: a
        window of microseconds is not met by chance."""
        if shutil.which("strace") is None:
            print("   left out, needs strace: the kills at each step")
            return
        for call in ("ftruncate", "fchown", "mkdirat", "linkat", "renameat", "unlinkat"):
            died, count = True, 0
            while died and count < 12:
                count += 1
                self.agent.kill()
                self.write("b")
                self.agent.wrap = ["strace", "-D", "-f", "-o", "/dev/null", "-e",
                                   f"trace={call}", "-e", f"inject={call}:signal=KILL:when={count}"]
                self.agent.launch()
                try:
                    until("it to answer or to be killed", self.agent.answers)
                    threads = [self.post("b", "warm", {"tier": "pinned-ram", "wait": True}),
                               self.post("c", "drop", {})]
                    for thread in threads:
                        thread.join()
                    self.agent.process.wait(0.3)
                    died = True
                except AssertionError:
                    died = True
                except subprocess.TimeoutExpired:
                    died = False  # it has no thread with so many of these calls
                self.agent.kill()
                assert self.agent.process.returncode == -signal.SIGKILL, self.agent.process
                self.kills[f"at {call}"] += died
                self.agent.wrap = []
                self.starts_with(self.what_is_left())

    def run(self, rounds):
        ways = (self.in_a_fill, self.in_a_publish, self.in_a_drop, self.in_a_change,
                self.in_a_change_while_it_fills, self.in_a_start, self.in_what_it_does_by_itself)
        end = time.monotonic() + SECONDS
        self.agent.start()
        self.at_each_step()
        done = 0
        while done < rounds if rounds else time.monotonic() < end:
            way = self.dice.choice(ways)
            name = self.dice.choice(NAMES)
            thread = way(name)
            self.agent.kill()
            if thread:
                thread.join()
            self.kills[way.__name__] += 1
            try:
                self.starts_with(self.what_is_left())
            except AssertionError:
                print(f"round {done}: {way.__name__} {name}")
                raise
            done += 1
            if done % 25 == 0:
                self.is_as_it_was()
        self.is_as_it_was()
        for name in NAMES:
            self.agent.ctl("drop", name)
        until("all memory to come back", lambda: memory_of(self.agent) < SLACK)
        assert self.agent.get("/v1/status")["tiers"]["pinned-ram"]["used_bytes"] == 0
        self.agent.stop()
        print(f"{sum(self.kills.values())} kills: {dict(self.kills)}\nleft behind: {dict(self.found)}\n"
              f"{self.adopted} copies were adopted, {self.made} made")


if __name__ == "__main__":
    own_namespace()
    numbers = [int(text) for text in sys.argv[2:]]
    seed = numbers[1] if len(numbers) > 1 else random.randrange(1 << 32)
    print(f"-- killed at any moment, seed {seed}", flush=True)
    with Folder() as place:
        rounds = Rounds(os.path.abspath(sys.argv[1]), place, seed)
        try:
            rounds.run(numbers[0] if numbers else 0)
        except BaseException:
            print("\n".join(rounds.agent.log().splitlines()[-30:]))
            raise
        finally:
            if rounds.agent.process and rounds.agent.process.poll() is None:
                rounds.agent.kill()
    print("all passed")
