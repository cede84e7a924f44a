#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Models that lie in a guest, which the agent keeps warm from outside: with the capabilities of its
unit, for a guest with mapped ids whose tree is not to be trusted."""
import ctypes
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../e2e"))
sys.path.insert(0, HERE)
from box import Box, cgroup_root  # noqa: E402
from harness import (MIB, Agent, confined, loop_mount, main, make_cold, need_root, pages,  # noqa: E402
                     resident, skip, until, write_gguf)

NAME = f"andiron-test-{os.getpid()}"


def config(*models):
    text = '[budget]\nram_headroom = "64MiB"\n[watch]\ndocker = "off"\n'
    for name, source, more in models:
        text += f'[[model]]\nname = "{name}"\nsource = "{source}"\n{more}\n'
    return text


def write_store(store, size):
    """An Ollama store with the model tiny:1b; gives its blob."""
    os.makedirs(f"{store}/blobs")
    os.makedirs(f"{store}/manifests/registry.ollama.ai/library/tiny")
    write_gguf(f"{store}/new", size)
    with open(f"{store}/new", "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    blob = f"{store}/blobs/sha256-{digest}"
    os.rename(f"{store}/new", blob)
    with open(f"{store}/manifests/registry.ollama.ai/library/tiny/1b", "w") as file:
        json.dump({"schemaVersion": 2,
                   "layers": [{"mediaType": "application/vnd.ollama.image.model",
                               "digest": f"sha256:{digest}", "size": os.path.getsize(blob)}]}, file)
    return blob


def root_folder(folder):
    """Of a guest, which has to reach it with mapped ids."""
    os.chmod(folder.path, 0o711)
    root = folder / "root"
    os.makedirs(root + "/srv")
    return root


def held(agent, identity):
    """How often the agent has a file open or mapped, by (device, inode)."""
    device, inode = identity
    pid = agent.process.pid
    count = 0
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            fields = line.split()
            major, minor = (int(part, 16) for part in fields[3].split(":"))
            count += os.makedev(major, minor) == device and int(fields[4]) == inode
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            status = os.stat(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        count += (status.st_dev, status.st_ino) == (device, inode)
    return count


def identity_of(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino


def letters(agent):
    known = {"container.started": "S", "container.stopped": "X", "model.warmed": "W",
             "model.missing": "M", "job.failed": "F"}
    return "".join(known.get(event["type"], "") for event in agent.events())


def until_letters(agent, wanted):
    try:
        until(wanted, lambda: letters(agent) == wanted)
    except AssertionError:
        raise AssertionError(f"{letters(agent)} instead of {wanted}") from None


class Guard:
    """Tells whether a file was opened, by anybody, since it was made."""
    IN_ACCESS, IN_OPEN = 0x1, 0x20

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert libc.inotify_add_watch(self.fd, path.encode(), self.IN_OPEN | self.IN_ACCESS) >= 0

    def fired(self):
        try:
            return len(os.read(self.fd, 4096)) >= struct.calcsize("iIII")
        except BlockingIOError:
            return False


def is_kept_warm_while_the_guest_runs(build, folder):
    root = root_folder(folder)
    os.makedirs(root + "/root/.ollama")
    volume, undo = loop_mount(folder, "volume", ["mkfs.ext4", "-q"], 96)
    image = folder / "volume.img"
    try:
        blob = write_store(volume + "/models", 32 * MIB)
        size = os.path.getsize(blob)
        # As people move a store to another disk: by a link, which is absolute in the guest.
        os.symlink("/srv/models", root + "/root/.ollama/models")
        subprocess.run(["chmod", "-R", "go=", volume], check=True)
        make_cold(blob)
        identity = identity_of(blob)
        source = f"guest:{NAME}:ollama:tiny:1b"
        text = config(("m", source, f'preload = "container:{NAME}"\nhold = "locked"'))
        with Box(NAME, root, {"/srv": volume}) as box, \
                Agent(build, folder, text, wrap=confined()) as agent:
            box.owns(root, volume)
            model = agent.until_state("m", "missing")
            assert f"guest {NAME} is not running" in json.dumps(model), model
            until("the agent to see cgroups", lambda: any(
                c["name"] == "cgroup-watch" and c["state"] != "off"
                for c in agent.get("/v1/doctor")["capabilities"]))
            guests = next(c for c in agent.get("/v1/doctor")["capabilities"]
                          if c["name"] == "guests")
            assert guests["state"] == "on", guests

            # Its first process, which is not in it yet, is not taken for the guest.
            box.begin()
            until_letters(agent, "MS")
            assert agent.model("m")["state"] == "missing", agent.model("m")
            box.enter()
            until_letters(agent, "MSW")
            assert resident(blob) == pages(size)
            model = agent.model("m")
            assert [file["path"] for file in model["files_detail"]] == [
                f"guest:{NAME}:/srv/models/blobs/{os.path.basename(blob)}"], model
            assert model["tiers"]["page-cache"]["locked_bytes"] == size, model
            assert held(agent, identity) > 0

            box.stop()
            until("the agent to let go", lambda: held(agent, identity) == 0)
            until_letters(agent, "MSWXM")
            assert agent.model("m")["state"] == "missing", agent.model("m")
            # Nothing keeps the volume: the loop device goes with the mount.
            subprocess.run(["umount", volume], check=True)
            until("the volume to be free", lambda: subprocess.run(
                ["losetup", "-j", image], check=True, capture_output=True).stdout == b"")

            subprocess.run(["mount", "-o", "loop", image, volume], check=True)
            make_cold(blob)
            box.start()
            until_letters(agent, "MSWXMSW")
            assert resident(blob) == pages(size)
            assert held(agent, identity_of(blob)) > 0
            assert agent.model("m")["state"] == "warm", agent.model("m")
            # A change in the guest is seen as anywhere: the first time perhaps because of the mount.
            store = f"{volume}/models/manifests/registry.ollama.ai/library/tiny"
            for _ in range(2):
                os.rename(store + "/1b", store + "/2b")
                agent.until_state("m", "missing")
                os.rename(store + "/2b", store + "/1b")
                agent.until_state("m", "warm")
            # Who comes by the socket may ask for what is configured, and for no other file of it.
            agent.ctl("warm", source)
            refused = agent.ctl("--json", "warm", f"guest:{NAME}:/srv/models", check=False)
            assert refused.returncode == 1 and "outside_roots" in refused.stdout, refused
            answer = agent.call("POST", "/v1/resolve", {"source": source})[1]
            assert answer["error"]["code"] == "outside_roots", answer
            agent.stop()
    finally:
        undo()


def is_let_go_of_in_the_middle_of_a_fill(build, folder):
    root = root_folder(folder)
    path = root + "/srv/m.gguf"
    write_gguf(path, 64 * MIB)
    make_cold(path)
    identity = identity_of(path)
    text = config(("m", f"guest:{NAME}:/srv/m.gguf", 'preload = "boot"'))
    text += '[stream]\nmax_bandwidth = "4MB/s"\n'
    with Box(NAME, root) as box, Agent(build, folder, text, wrap=confined()) as agent:
        agent.until_state("m", "missing")
        box.owns()
        box.start()  # no container:NAME: it is wanted, and there again
        until("the fill to be under way",
              lambda: agent.model("m")["state"] == "warming" and held(agent, identity) > 0)
        box.stop()
        until("the agent to let go", lambda: held(agent, identity) == 0)
        agent.until_state("m", "missing")
        assert "W" not in letters(agent), letters(agent)
        agent.stop()


def nothing_in_a_guest_leads_out_of_it(build, folder):
    root = root_folder(folder)
    secret = folder / "secret.gguf"
    write_gguf(secret, MIB)
    make_cold(secret)
    os.symlink(secret, root + "/srv/absolute.gguf")
    os.symlink("../" * 20 + secret.lstrip("/"), root + "/srv/up.gguf")
    os.symlink("/proc/1/root" + secret, root + "/srv/root.gguf")
    os.symlink("/proc/self/root" + secret, root + "/srv/self.gguf")
    os.symlink("/etc/shadow", root + "/srv/shadow")
    os.mkfifo(root + "/srv/pipe.gguf")
    names = ["absolute.gguf", "up.gguf", "root.gguf", "self.gguf", "shadow", "pipe.gguf"]
    text = config(*((name, f"guest:{NAME}:/srv/{name}", 'preload = "boot"') for name in names))
    guard = Guard(secret)  # not of /etc/shadow, which any login on this machine opens
    with Box(NAME, root) as box, Agent(build, folder, text, wrap=confined()) as agent:
        box.owns()
        box.start()
        agent.until_state("pipe.gguf", "error")
        for name in names[:-1]:
            until(name, lambda: "is not running" not in json.dumps(agent.model(name)))
            assert agent.model(name)["state"] == "missing", agent.model(name)
        # In the guest there is such a file; a link to it is good, and means that one.
        inner = root + secret
        os.makedirs(os.path.dirname(inner))
        write_gguf(inner, 2 * MIB)
        box.owns()
        make_cold(inner)
        for name in names[:3]:
            model = agent.until_state(name, "warm")
            assert model["bytes"] == os.path.getsize(inner), model
        assert resident(inner) == pages(os.path.getsize(inner))
        agent.stop()
    assert not guard.fired()
    with open(secret, "rb"):
        assert guard.fired()


def with_proc():
    """Are there cgroups, and the namespaces that a guest takes?"""
    if cgroup_root() is None:
        skip("there are no cgroups")
    if shutil.which("setpriv") is None:
        skip("needs setpriv")
    done = subprocess.run(["unshare", "--user", "--mount", "--pid", "--fork", "true"],
                          capture_output=True)
    if done.returncode != 0:
        skip(f"no namespaces: {done.stderr.decode().strip()}")


need_root()
with_proc()
main([is_kept_warm_while_the_guest_runs, is_let_go_of_in_the_middle_of_a_fill,
      nothing_in_a_guest_leads_out_of_it])
