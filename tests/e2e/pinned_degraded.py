#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pinned-ram tier where the machine does not give all that it wants: the bytes are right, and
doctor says what is missing."""
import os
import subprocess
import sys

from harness import MIB, Agent, main, make_cold, own_namespace, resident, write_gguf
from pinned import config, pinned, sha256

# Refuses io_uring_setup, which has this number on every architecture, with EPERM, as the profiles of
# container runtimes do; then runs what is behind it.
NO_IO_URING = """
import ctypes, os, struct, sys
number, eperm = 425, 1
load, equal, give = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
program = b"".join(struct.pack("HBBI", *line) for line in [
    (load, 0, 0, 0), (equal, 0, 1, number), (give, 0, 0, 0x00050000 | eperm),
    (give, 0, 0, 0x7fff0000)])
lines = ctypes.create_string_buffer(program)
filter = struct.pack("HxxxxxxQ", 4, ctypes.addressof(lines))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, filter, 0, 0) != 0:
    sys.exit("no seccomp filter: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
"""


def capability(agent, name):
    return {each["name"]: each for each in agent.get("/v1/doctor")["capabilities"]}[name]


def make(folder):
    path = folder / "m.gguf"
    write_gguf(path, 40 * MIB + 20)
    make_cold(path)
    return path


def is_right(agent, path):
    tier = pinned(agent)
    assert tier["resident_bytes"] == os.path.getsize(path), tier
    assert sha256(tier["path"]) == sha256(path)
    said = agent.ctl("run", "m", "--", "sha256sum", "-b", "{}").stdout
    assert said.split()[0] == sha256(path)
    return tier


def warmed(agent, path):
    done = agent.ctl("warm", "m", "--tier", "pinned-ram")
    assert resident(path) == 0, "the source went through the page cache"
    return done


def without_io_uring(build, folder):
    path = make(folder)
    wrap = [sys.executable, "-I", "-c", NO_IO_URING]
    if (tried := subprocess.run(wrap + ["true"], capture_output=True, text=True)).returncode != 0:
        print(f"left out: {tried.stderr.strip()}")
        return
    with Agent(build, folder, config(folder, ("m", path)), wrap=wrap) as agent:
        warmed(agent, path)
        found = capability(agent, "io_uring")
        assert found["state"] != "on" and found["reason"] and found["remedy"], found
        is_right(agent, path)
        agent.stop()


def wrap_little_memlock():
    wrap = ["prlimit", f"--memlock={MIB}:{MIB}", "setpriv", "--bounding-set=-ipc_lock",
            "--inh-caps=-ipc_lock"]
    if subprocess.run(wrap + ["true"], capture_output=True).returncode != 0:
        return None
    return wrap


def little_may_be_locked(build, folder):
    path = make(folder)
    wrap = wrap_little_memlock()
    if wrap is None:
        print("left out, setpriv may not drop the right to lock here")
        return
    with Agent(build, folder, config(folder, ("m", path)), wrap=wrap) as agent:
        done = warmed(agent, path)
        tier = is_right(agent, path)
        assert tier["locked_bytes"] <= MIB, tier
        found = capability(agent, "mlock")
        assert found["state"] == "degraded" and "1.0 MiB" in found["reason"], found
        # What never swaps stays without a lock; else it is said.
        noswap = capability(agent, "pinned-ram")["state"] == "on"
        assert noswap or "lock_limit" in done.stderr, done
        agent.stop()


def is_degraded_with(agent, *reasons):
    found = capability(agent, "pinned-ram")
    assert found["state"] == "degraded", found
    for reason in reasons:
        assert reason in found["reason"], found
    assert found in agent.get("/v1/status")["capabilities"]
    assert found["reason"] in agent.ctl("doctor").stdout


def on_a_plain_tmpfs(build, folder):
    """Mounted beforehand by somebody who knew of no options; and with little that may be locked."""
    path = make(folder)
    place = folder / "state/pinned"
    os.makedirs(place)
    os.chmod(folder / "state", 0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m,mode=0755,huge=never", "none", place],
                   check=True)
    for wrap in ([], wrap_little_memlock() or []):
        with Agent(build, folder, config(folder, ("m", path)), wrap=wrap) as agent:
            done = warmed(agent, path)
            tier = is_right(agent, path)
            is_degraded_with(agent, "no huge pages", "without noswap")
            assert tier["huge_bytes"] == 0, tier
            if wrap:
                assert "lock_limit" in done.stderr and tier["locked_bytes"] <= MIB, (done, tier)
            else:
                assert tier["locked_bytes"] == os.path.getsize(path), tier
            # It was taken, and not covered by another one.
            assert os.path.exists(os.path.join(place, "m/m.gguf"))
            agent.ctl("drop", "m")
            agent.stop()


def where_huge_pages_are_denied(build, folder):
    """The machine's own setting, as far as anybody can read it here."""
    setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
    if not os.path.exists(setting):
        print(f"left out, needs {setting}")
        return
    path = make(folder)
    said = folder / "denied"
    with open(said, "w") as file:
        file.write("always within_size advise never [deny] force\n")
    subprocess.run(["mount", "--bind", said, setting], check=True)
    try:
        with Agent(build, folder, config(folder, ("m", path))) as agent:
            warmed(agent, path)
            is_right(agent, path)
            is_degraded_with(agent, "no huge pages", setting)
            agent.stop()
    finally:
        subprocess.run(["umount", setting], check=True)


def where_nothing_may_be_mounted(build, folder):
    """As in a container, when whoever started it mounted nothing beforehand."""
    path = make(folder)
    wrap = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    with Agent(build, folder, config(folder, ("m", path)), wrap=wrap) as agent:
        refused = agent.ctl("warm", "m", "--tier", "pinned-ram", check=False)
        assert refused.returncode == 1 and "unavailable" in refused.stderr, refused
        found = capability(agent, "pinned-ram")
        assert found["state"] == "off" and found["reason"] and found["remedy"], found
        # It is what it is without this tier.
        agent.ctl("warm", "m", "--tier", "page-cache")
        assert agent.model("m")["tiers"]["page-cache"]["hold"] == "mapped"
        agent.stop()


if __name__ == "__main__":
    own_namespace()
    main([without_io_uring, little_may_be_locked, on_a_plain_tmpfs,
          where_huge_pages_are_denied, where_nothing_may_be_mounted])
