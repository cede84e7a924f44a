#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Installs, upgrades, removes and purges the package, with dpkg and its real maintainer scripts, on a
copy-on-write view of this machine that nobody else sees. systemd does not run there; tests of a whole
machine have that."""
import os
import re
import subprocess
import tempfile

from package import need, output, package, skip

UNITS = ["andirond.service", "andirond.socket", "andirond-lease.socket", "andiron.slice",
         "andiron-preload.service",
         "andiron-warm@assistant.service"]
# Of 100, which systemd-analyze prints as tenths. docs/man/andirond.8 says so.
EXPOSURE = 36


class View:
    """The machine's root file system with a layer above it that takes what is written."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="andiron-view-")
        self.root = self.folder + "/root"
        steps = ["mount -t tmpfs tmpfs {0}", "mkdir {0}/upper {0}/work {0}/root",
                 "mount -t overlay overlay -o lowerdir=/,upperdir={0}/upper,workdir={0}/work {0}/root",
                 "mount -t tmpfs tmpfs {0}/root/run", "mount -t tmpfs tmpfs {0}/root/tmp",
                 "mount --rbind /proc {0}/root/proc", "mount --rbind /dev {0}/root/dev",
                 "mount --rbind /sys {0}/root/sys", "echo ready", "exec sleep 1000"]
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             " && ".join(steps).format(self.folder)], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        said = self.holder.stdout.readline()
        if said != "ready\n":
            self.close()
            skip(f"no overlay of the root file system can be mounted here: {said.strip()}")

    def close(self):
        self.holder.kill()
        self.holder.wait()
        os.rmdir(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def enter(self):
        return ["nsenter", "--target", str(self.holder.pid), "--mount", "--", "chroot", self.root]

    def run(self, *command, check=True):
        return output(*self.enter(), "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8",
                      *command, check=check)

    def true(self, *command):
        return subprocess.run([*self.enter(), *command], stdin=subprocess.DEVNULL,
                              capture_output=True).returncode == 0

    def install(self):
        """dpkg, with the package brought in by a way that needs no folder of the view."""
        with open(package(), "rb") as file:
            subprocess.run([*self.enter(), "sh", "-c", "cat >/tmp/andiron.deb"], stdin=file,
                           check=True)
        return self.run("dpkg", "--install", "/tmp/andiron.deb")

    def links(self):
        return self.run("find", "/etc/systemd/system", "-lname", "*andiron*", check=False).split()


def check_installed(view):
    assert view.true("getent", "group", "andiron")
    assert "is good: 0 models" in view.run("andirond", "--check-config"), "the first configuration"
    assert sorted(view.links()) == [
        "/etc/systemd/system/multi-user.target.wants/andiron-preload.service",
        "/etc/systemd/system/multi-user.target.wants/andirond.service",
        "/etc/systemd/system/sockets.target.wants/andirond-lease.socket",
        "/etc/systemd/system/sockets.target.wants/andirond.socket"], view.links()
    assert view.run("stat", "-c", "%a %U", "/run/andiron") == "755 root\n"
    assert view.run("stat", "-c", "%a", "/var/lib/andiron") == "700\n"
    # Everything commented out of the first configuration is one, too.
    view.run("sh", "-c", "sed 's/^#\\([a-z[]\\)/\\1/' /etc/andiron/andiron.toml >/tmp/all.toml")
    assert "is good: 1 models" in view.run("andirond", "--check-config", "--config", "/tmp/all.toml")


def check_units(view):
    # It says nothing where nothing is wrong; of other units on this machine we do not care.
    said = view.run("systemd-analyze", "--man=no", "verify", *UNITS)
    ours = [line for line in said.splitlines() if "andiron" in line]
    assert not ours, said
    said = view.run("systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE}",
                    "--no-pager", "andirond.service")
    print(re.search(r"Overall exposure level.*", said).group(0))


def check_life():
    with View() as view:
        if not view.true("systemd-analyze", "--version"):
            skip("needs systemd-analyze")
        view.install()
        check_installed(view)
        check_units(view)

        # What somebody decided stays through an upgrade.
        view.run("sh", "-c", "echo '# mine' >/etc/andiron/andiron.toml")
        view.run("systemctl", "disable", "andiron-preload.service")
        view.install()
        assert view.run("cat", "/etc/andiron/andiron.toml") == "# mine\n"
        assert not any("preload" in link for link in view.links()), view.links()

        view.run("touch", "/var/lib/andiron/wanted.json")
        view.run("dpkg", "--remove", "andiron")
        assert not view.true("test", "-e", "/usr/sbin/andirond")
        assert view.true("test", "-e", "/etc/andiron/andiron.toml")
        view.install()
        assert view.run("cat", "/etc/andiron/andiron.toml") == "# mine\n"
        assert any("andirond.service" in link for link in view.links()), view.links()

        view.run("dpkg", "--purge", "andiron")
        for left in ("/etc/andiron", "/var/lib/andiron", "/run/andiron", "/usr/share/doc/andiron"):
            assert not view.true("test", "-e", left), left
        assert view.links() == [], view.links()
        assert not view.true("getent", "group", "andiron")
        left = view.run("find", "/etc/systemd", "/var/lib/systemd", "-name", "*andiron*", check=False)
        assert left == "", left

        # And where there is nothing of systemd at all.
        view.run("sh", "-c", "rm -f /usr/bin/systemd-* /usr/bin/systemctl /usr/bin/deb-systemd-*")
        view.install()
        assert view.true("getent", "group", "andiron")
        assert view.true("test", "-e", "/etc/andiron/andiron.toml")
        assert view.run("andirond", "--version").startswith("andirond ")
        view.run("dpkg", "--purge", "andiron")
        assert not view.true("getent", "group", "andiron")


need("dpkg", "unshare", "nsenter")
check_life()
print("all passed")
