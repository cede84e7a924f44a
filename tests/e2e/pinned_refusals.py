#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What nobody gets in the pinned-ram tier: a way to change a copy, bytes that the source would not show
him, more than the budget, bytes of two versions of a file."""
import json
import mmap
import os
import traceback

from harness import MIB, Agent, main, make_cold, own_namespace, until, write_gguf
from pinned import as_nobody, config, memory_of, open_to_all, pinned, sha256

OWNER = 1234
NOBODY = 65534


def ways_to_change(path):
    folder = os.path.dirname(path)
    reader = os.open(path, os.O_RDONLY)
    again = f"/proc/self/fd/{reader}"
    return {
        "write": lambda: os.open(path, os.O_WRONLY),
        "read and write": lambda: os.open(path, os.O_RDWR),
        "append": lambda: os.open(path, os.O_WRONLY | os.O_APPEND),
        "truncate as it is opened": lambda: os.open(path, os.O_RDONLY | os.O_TRUNC),
        "truncate": lambda: os.truncate(path, 0),
        "truncate by descriptor": lambda: os.ftruncate(reader, 0),
        "open the descriptor again": lambda: os.open(again, os.O_RDWR),
        "truncate the descriptor's file": lambda: os.truncate(again, 0),
        "map to write": lambda: mmap.mmap(reader, 4096, mmap.MAP_SHARED, mmap.PROT_WRITE),
        "allocate": lambda: os.posix_fallocate(reader, 0, 4096),
        "chmod": lambda: os.chmod(path, 0o666),
        "chmod by descriptor": lambda: os.fchmod(reader, 0o666),
        "chown": lambda: os.chown(path, os.getuid(), os.getgid()),
        "set times": lambda: os.utime(path, (1, 1)),
        "set an attribute": lambda: os.setxattr(path, "user.x", b"y"),
        "unlink": lambda: os.unlink(path),
        "rename": lambda: os.rename(path, path + ".old"),
        "link": lambda: os.link(path, path + ".other"),
        "write beside it": lambda: os.open(folder + "/new", os.O_WRONLY | os.O_CREAT),
        "make a folder": lambda: os.mkdir(os.path.dirname(folder) + "/folder"),
    }


def changes_by(user, path):
    """What was not refused to this user, in a process of its own."""
    result, told = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            done = []
            for name, change in ways_to_change(path).items():
                try:
                    change()
                    done.append(name)
                except (OSError, ValueError):  # the latter: there is nothing left to map
                    pass
            os.write(told, json.dumps(done).encode())
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(told)
    with os.fdopen(result) as out:
        done = out.read()
    assert os.waitpid(child, 0)[1] == 0, "the child failed"
    return json.loads(done)


def nobody_changes_a_copy(build, folder):
    open_to_all(folder)
    path = folder / "m.gguf"
    write_gguf(path, 4 * MIB)
    os.chown(path, OWNER, OWNER)
    os.chmod(path, 0o666)
    digest = sha256(path)
    with Agent(build, folder, config(folder, ("m", path))) as agent:
        agent.ctl("warm", "m", "--tier", "pinned-ram")
        copy = pinned(agent)["path"]
        about = os.stat(copy)
        assert about.st_uid == OWNER and about.st_mode & 0o777 == 0o444, about
        for user in (0, OWNER, NOBODY):
            changed = changes_by(user, copy)
            assert not changed, (user, changed)
        assert as_nobody("ls", agent.state_dir).returncode != 0
        after = os.stat(copy)
        assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (
            about.st_mode, about.st_uid, about.st_mtime_ns)
        assert sha256(copy) == digest == sha256(path)
        agent.stop()


def a_closed_home_stays_closed(build, folder):
    """The file itself is open to all, and a folder above it to its owner only."""
    open_to_all(folder)
    home = folder / "home"
    os.makedirs(os.path.join(home, "models"))
    path = os.path.join(home, "models/m.gguf")
    write_gguf(path, MIB)
    for each in (home, os.path.join(home, "models"), path):
        os.chown(each, OWNER, OWNER)
    os.chmod(path, 0o644)
    os.chmod(home, 0o700)
    with Agent(build, folder, config(folder, ("m", path))) as agent:
        agent.ctl("warm", "m", "--tier", "pinned-ram")
        copy = pinned(agent)["path"]
        assert as_nobody("sha256sum", path).returncode != 0
        assert as_nobody("sha256sum", copy).returncode != 0
        agent.stop()


def what_does_not_fit_says_what_is_in_the_way(build, folder):
    for name, size in (("small", 24), ("large", 40), ("other", 48), ("huge", 128)):
        write_gguf(folder / f"{name}.gguf", size * MIB)
    text = config(folder, *((name, folder / f"{name}.gguf") for name in
                            ("small", "large", "other", "huge")))
    with Agent(build, folder, text.replace("2GiB", "96MiB")) as agent:
        for name in ("small", "large"):
            agent.ctl("warm", name, "--tier", "pinned-ram")
        before = memory_of(agent)
        refused = agent.ctl("warm", "huge", "--tier", "pinned-ram", check=False)
        assert refused.returncode == 1 and "no_budget" in refused.stderr, refused
        assert "96 MiB is all that may be held" in refused.stderr, refused.stderr
        refused = agent.ctl("warm", "other", "--tier", "pinned-ram", check=False)
        assert refused.returncode == 1 and "no_budget" in refused.stderr, refused
        assert "drop small (24 MiB)" in refused.stderr, refused.stderr
        assert memory_of(agent) == before
        for name in ("small", "large"):
            assert sha256(pinned(agent, name)["path"]) == sha256(folder / f"{name}.gguf")
        agent.ctl("drop", "small")  # as it says
        agent.ctl("warm", "other", "--tier", "pinned-ram")
        assert sha256(pinned(agent, "other")["path"]) == sha256(folder / "other.gguf")
        agent.stop()


def rewrite(path, folder):
    """In place: some of what has been read, and some of what has not."""
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        for at in (MIB, size - MIB):
            file.seek(at)
            file.write(b"new" * 1000)


def cut(path, folder):
    os.truncate(path, os.path.getsize(path) // 2)


def replace(path, folder):
    write_gguf(folder / "new", 20 * MIB, seed=3)
    os.rename(folder / "new", path)


def a_file_that_changes_while_it_is_filled(build, folder):
    """Slowly filled, so that the change comes in the middle of it."""
    path = folder / "m.gguf"
    text = config(folder, ("m", path)) + '[stream]\nmax_bandwidth = "32MiB"\n'
    for change in (rewrite, cut, replace):
        print(f"   {change.__name__}", flush=True)
        write_gguf(path, 96 * MIB)
        make_cold(path)
        with Agent(build, folder, text) as agent:
            until("it to be known", lambda: agent.model("m")["bytes"])
            warm = agent.begin_ctl("warm", "m", "--tier", "pinned-ram")

            def halfway():
                assert warm.poll() is None, warm.communicate()
                jobs = agent.get("/v1/jobs")["jobs"]
                return [job for job in jobs if job["done_bytes"] > 4 * MIB]
            until("some of it to be read", halfway)
            change(path, folder)
            _, said = warm.communicate(timeout=60)
            assert warm.returncode == 1 and "stale" in said, (warm.returncode, said)
            # Nothing of it, until all of the new bytes are there; a file cut short is no model.
            names = os.path.join(agent.run_dir, "pinned/m")
            if change is cut:
                assert not os.path.exists(names), os.listdir(names)
            else:
                agent.ctl("warm", "m", "--tier", "pinned-ram")
                assert sha256(pinned(agent)["path"]) == sha256(path)
            agent.ctl("drop", "m")
            copies = os.path.join(agent.state_dir, "pinned/.copies")
            assert os.listdir(copies) == [], os.listdir(copies)
            until("its memory to come back", lambda: memory_of(agent) < MIB)
            agent.stop()


if __name__ == "__main__":
    own_namespace()
    main([nobody_changes_a_copy, a_closed_home_stays_closed,
          what_does_not_fit_says_what_is_in_the_way, a_file_that_changes_while_it_is_filled])
