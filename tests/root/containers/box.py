#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A guest as LXC makes one: a process in its own user, mount and pid namespaces, with mapped ids
and a root folder of its own, in a cgroup that bears its name.

As a program it is the guest's own side: it enters the namespaces, and is then the init.
"""
import ctypes
import os
import signal
import subprocess
import sys

FIRST_ID = 100000
IDS = 65536

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x1000, 0x4000, 0x40000, 2
SYS_PIVOT_ROOT = 155  # x86-64
PR_SET_PDEATHSIG = 1


def cgroup_root():
    """The hierarchy that the agent looks at, or None."""
    root = "/sys/fs/cgroup"
    if os.path.exists(root + "/cgroup.controllers"):
        return root
    return next((path for path in (f"{root}/{each}" for each in
                                   ("systemd", "pids", "memory", "devices", "cpu"))
                 if os.path.exists(path + "/cgroup.procs")), None)


class Box:
    """The guest of a test. `root` is its root folder on this machine; `volumes` are folders of this
    machine that it has at places of its own: {"/srv": "/mnt/x"}."""

    def __init__(self, name, root, volumes=None):
        self.name = name
        self.root = root
        self.volumes = volumes or {}
        self.group = f"{cgroup_root()}/lxc.payload.{name}"
        self.inner = self.group + "/init.scope"  # where the init of a guest keeps itself
        self.helper = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.helper is not None:
            self.stop()

    def start(self):
        """Gives back when the guest is in its own root."""
        self.begin()
        self.enter()

    def begin(self):
        """The first half: its first process is in its cgroup, and still in this machine's root."""
        os.makedirs(self.inner)
        self.helper = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), self.root,
             *(f"{place}={folder}" for place, folder in self.volumes.items())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with open(self.inner + "/cgroup.procs", "w") as file:
            file.write(str(self.helper.pid))

    def enter(self):
        self.say(b"g")
        self.hear(b"u")
        for kind in ("uid", "gid"):
            with open(f"/proc/{self.helper.pid}/{kind}_map", "w") as file:
                file.write(f"0 {FIRST_ID} {IDS}")
        self.say(b"m")
        self.hear(b"r")

    def say(self, byte):
        self.helper.stdin.write(byte)
        self.helper.stdin.flush()

    def hear(self, byte):
        said = self.helper.stdout.read(1)
        assert said == byte, f"the guest did not start: {said} instead of {byte}"

    def stop(self):
        """Gives back when none of its processes is left, and its cgroup is gone."""
        with open(self.inner + "/cgroup.procs") as file:
            pids = [int(line) for line in file]
        for pid in pids:
            if pid != self.helper.pid or len(pids) == 1:
                os.kill(pid, signal.SIGKILL)
        self.helper.wait()
        self.helper.stdin.close()
        self.helper.stdout.close()
        self.helper = None
        os.rmdir(self.inner)
        os.rmdir(self.group)

    def owns(self, *paths):
        """Files and folders below its root become its own."""
        for path in paths or (self.root,):
            for folder, names, files in os.walk(path):
                for each in [folder] + [os.path.join(folder, name) for name in names + files]:
                    os.lchown(each, FIRST_ID, FIRST_ID)


def mount(source, target, kind, flags):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind, flags, None) != 0:
        raise OSError(ctypes.get_errno(), "mount", target)


def be_init(root, volumes):
    libc = ctypes.CDLL(None, use_errno=True)
    mount("", "/", None, MS_REC | MS_PRIVATE)
    mount(root, root, None, MS_BIND | MS_REC)
    for place, folder in volumes:
        mount(folder, root + place, None, MS_BIND)
    os.makedirs(root + "/proc", exist_ok=True)
    try:
        mount("proc", root + "/proc", b"proc", 0)
    except OSError:
        pass  # where this machine's own /proc is covered in places
    os.chdir(root)
    if libc.syscall(SYS_PIVOT_ROOT, b".", b".") != 0:
        raise OSError(ctypes.get_errno(), "pivot_root")
    if libc.umount2(b".", MNT_DETACH) != 0:
        raise OSError(ctypes.get_errno(), "umount")
    os.write(1, b"r")
    while True:
        signal.pause()


def main(root, *volumes):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    volumes = [each.split("=", 1) for each in volumes]
    os.read(0, 1)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    os.write(1, b"u")
    os.read(0, 1)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        be_init(root, volumes)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
