# SPDX-License-Identifier: MIT
"""Makes what the guests boot: a Debian 12 disk without Andiron, and kernels with their initrds.

One mmdebstrap run brings all packages. The kernels are only unpacked: qemu is handed the kernel and
an initrd of ours that loads four modules, so neither initramfs-tools nor a boot loader is needed.
mke2fs fills the disk from a folder, so nothing is ever mounted.
"""
import fcntl
import glob
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import threading
import uuid

SUITE = "bookworm"
# linux-image-cloud-amd64, and the suites that may have it in that version: Debian 12's own kernel,
# and that of Debian 13.
KERNELS = {"6.1": [SUITE], "6.12": [SUITE + "-backports", "trixie"]}
# What the checks need, and what the agent links to; apt itself comes with mmdebstrap's variant.
# With Podman comes crun; netavark, or apt would choose 50 MB of other plug-ins for its networks.
# Not dbus: nobody but apt would use it, which would wait for a logind.
PACKAGES = ["systemd", "systemd-sysv", "udev", "kmod", "util-linux-extra", "python3",
            "busybox-static", "podman", "crun", "netavark", "libfmt9", "libspdlog1.10", "liburing2", "libsystemd0", "libstdc++6"]
# All there is between the kernel and a root folder on a virtio disk.
INITRD_MODULES = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"]
# Nobody logs in, nothing is upgraded, and there is no network: under emulation each costs seconds.
MASKED = ["apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer",
          "e2scrub_all.timer", "e2scrub_reap.service", "getty@tty1.service",
          "getty-static.service", "serial-getty@ttyS0.service", "systemd-update-utmp.service",
          "systemd-update-utmp-runlevel.service", "systemd-binfmt.service",
          "systemd-logind.service", "systemd-user-sessions.service", "systemd-pcrphase.service",
          "systemd-pcrphase-sysinit.service", "modprobe@.service", "dev-hugepages.mount",
          "sys-kernel-debug.mount", "sys-kernel-config.mount", "sys-kernel-tracing.mount",
          "sys-fs-fuse-connections.mount", "dev-mqueue.mount"]
LEFT_OUT = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*"]
DISK_MIB = 1536
DOWNLOAD_SECONDS = 600

INIT = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in /modules/*; do /bin/busybox insmod "$module"; done
for second in 1 2 3 4 5 6 7 8 9 10; do
  [ -b /dev/vda ] && break
  /bin/busybox sleep 1
done
/bin/busybox mount -t ext4 /dev/vda /root || exit 1
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
"""

# What the host wants to have checked lies on a second disk, under /srv.
CHECKS_UNIT = """[Unit]
Description=Checks of Andiron
RequiresMountsFor=/srv

[Service]
ExecStart=/usr/bin/python3 -B /srv/vm/guest.py

[Install]
WantedBy=multi-user.target
"""

# Only the disks matter. Without this, udev loads a driver for each thing that qemu has.
UDEV_DROP_IN = """[Service]
ExecStart=
ExecStart=-udevadm trigger --action=add --subsystem-match=block
"""


class Unavailable(Exception):
    """This machine cannot make the image, for a reason that is no fault of the code."""


class Image:
    """A finished image: a disk, and the kernels to boot it with."""

    def __init__(self, folder):
        self.folder = folder
        self.disk = os.path.join(folder, "debian.img")

    def kernel(self, version):
        """(kernel, initrd)"""
        missing = os.path.join(self.folder, f"missing-{version}")
        if os.path.exists(missing):
            with open(missing) as file:
                raise Unavailable(f"no kernel {version}: {file.read()}")
        return tuple(os.path.join(self.folder, f"{kind}-{version}")
                     for kind in ("vmlinuz", "initrd"))


def image(folder):
    """The image in `folder`, made if it is not there or was made by another version of this file.
    One process makes it; others wait for that."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(__file__, "rb") as source:
            stamp = hashlib.sha256(source.read()).hexdigest()
        stamp_path = os.path.join(folder, "stamp")
        if not os.path.exists(stamp_path) or open(stamp_path).read() != stamp:
            make(folder)
            with open(stamp_path, "w") as file:
                file.write(stamp)
    return Image(folder)


def make(folder):
    work = os.path.join(folder, "making")
    shutil.rmtree(work, ignore_errors=True)
    for old in glob.glob(os.path.join(folder, "*-6.*")) + glob.glob(os.path.join(folder, "*.img")):
        os.unlink(old)
    tree = os.path.join(work, "tree")
    os.makedirs(work)
    uri = mirror()
    try:
        # The kernels come down while the packages are being configured.
        kernels = KernelDownload(work, uri)
        kernels.start()
        try:
            make_tree(tree, uri)
        except RuntimeError:
            kernels.join()
            if not kernels.unpacked:  # nor did the other apt get anything
                raise Unavailable(f"nothing comes from {uri}") from None
            raise
        kernels.join()
        for version, unpacked in kernels.unpacked.items():
            add_kernel(folder, tree, version, unpacked)
        for version, error in kernels.errors.items():
            with open(os.path.join(folder, f"missing-{version}"), "w") as file:
                file.write(error)
        settle(tree)
        disk = os.path.join(work, "debian.img")
        run(["mke2fs", "-q", "-t", "ext4", "-L", "debian", "-O", "^has_journal", "-d", tree, disk,
             f"{DISK_MIB}M"])
        os.rename(disk, os.path.join(folder, "debian.img"))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def run(command, **kwargs):
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    if "input" in kwargs:
        del kwargs["stdin"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS,
                          check=False, **kwargs)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{last}")
    return done.stdout


def mirror():
    """Where apt on this machine gets Debian from; one that is not of Debian asks Debian."""
    listed = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)",
                  "Created-By: Packages"])
    for line in listed.splitlines():
        uri, _, release = line.partition(" ")
        if release == SUITE and uri.rstrip("/").endswith("/debian"):
            return uri.rstrip("/")
    return "http://deb.debian.org/debian"


def source_line(uri, suite):
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    signed = f"[signed-by={keyring}] " if os.path.exists(keyring) else ""
    return f"deb {signed}{uri} {suite} main\n"


def apt_options():
    """How apt on this machine reaches its mirror: proxies, and leave to take an older snapshot."""
    wanted = re.compile(r'Acquire::(https?::.*|Check-Valid-Until|Check-Date|Retries) ".+";$')
    return [line for line in run(["apt-config", "dump"]).splitlines() if wanted.match(line)]


def make_tree(tree, uri):
    run(["mmdebstrap", "--mode=root", "--variant=apt", "--format=directory",
         "--include=" + ",".join(PACKAGES), *(f"--aptopt={line}" for line in apt_options()),
         *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT), SUITE, tree, "-"],
        input=source_line(uri, SUITE))
    # What it took from this machine's apt stays on this machine.
    for name in glob.glob(os.path.join(tree, "etc/apt/apt.conf.d/99mmdebstrap")):
        os.unlink(name)


class KernelDownload(threading.Thread):
    """Gets the kernels' packages by an apt of their own, which sees one suite at a time: nothing of
    another suite can slip into the image. `unpacked` has a folder a version, `errors` the rest."""

    def __init__(self, work, uri):
        super().__init__(name="kernels")
        self.work = work
        self.uri = uri
        self.unpacked = {}
        self.errors = {}

    def run(self):
        for version, suites in KERNELS.items():
            for suite in suites:
                try:
                    self.unpacked[version] = self.fetch(version, suite)
                    self.errors.pop(version, None)
                    break
                except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                    self.errors[version] = f"{suite}: {error}"

    def fetch(self, version, suite):
        folder = os.path.join(self.work, suite)
        lists = os.path.join(folder, "lists")
        os.makedirs(lists)
        source = os.path.join(folder, "sources.list")
        with open(source, "w") as file:
            file.write(source_line(self.uri, suite))
        options = [word for option in (
            f"Dir::Etc::sourcelist={source}", "Dir::Etc::sourceparts=/dev/null",
            f"Dir::State::lists={lists}", "Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=",
            "Acquire::Languages=none", "APT::Sandbox::User=root") for word in ("-o", option)]
        run(["apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update"])
        shown = run(["apt-cache", *options, "show", "linux-image-cloud-amd64"])
        found = re.search(rf"^Depends:.*?(linux-image-{re.escape(version)}\.[^ ,]+)", shown, re.M)
        if not found:
            raise RuntimeError(f"linux-image-cloud-amd64 there is no {version}")
        run(["apt-get", *options, "download", found[1]], cwd=folder)
        unpacked = os.path.join(folder, "unpacked")
        run(["dpkg-deb", "-x", *glob.glob(os.path.join(folder, "*.deb")), unpacked])
        print(f"kernel {version}: {found[1]} of {suite}", flush=True)
        return unpacked


def add_kernel(folder, tree, version, unpacked):
    """The modules go to the disk, the kernel beside it, with an initrd that finds the disk."""
    modules = glob.glob(os.path.join(unpacked, "lib/modules/*"))
    modules += glob.glob(os.path.join(unpacked, "usr/lib/modules/*"))
    release = os.path.basename(modules[0])
    home = os.path.join(tree, "usr/lib/modules", release)
    os.makedirs(os.path.dirname(home), exist_ok=True)
    shutil.move(modules[0], home)
    run(["chroot", tree, "depmod", release])
    entries = [("bin", 0o40755, b""), ("dev", 0o40755, b""), ("root", 0o40755, b""),
               ("modules", 0o40755, b""), ("init", 0o100755, INIT.encode())]
    with open(os.path.join(tree, "bin/busybox"), "rb") as file:
        entries.append(("bin/busybox", 0o100755, file.read()))
    for order, path in enumerate(load_order(home)):
        entries.append((f"modules/{order:03}", 0o100644, read_module(path)))
    with open(os.path.join(folder, f"initrd-{version}"), "wb") as file:
        file.write(cpio(entries))
    shutil.move(os.path.join(unpacked, f"boot/vmlinuz-{release}"),
                os.path.join(folder, f"vmlinuz-{version}"))


def load_order(home):
    """Paths of INITRD_MODULES and of what they depend on, each after what it needs. What this
    kernel has built in is not in modules.dep."""
    needs = {}
    by_name = {}
    with open(os.path.join(home, "modules.dep")) as file:
        for line in file:
            path, _, rest = line.partition(":")
            needs[path] = rest.split()
            by_name[os.path.basename(path).split(".ko")[0].replace("-", "_")] = path
    order = []

    def add(path):
        for need in needs[path]:
            add(need)
        if path not in order:
            order.append(path)

    for name in INITRD_MODULES:
        if name in by_name:
            add(by_name[name])
    return [os.path.join(home, path) for path in order]


def read_module(path):
    with open(path, "rb") as file:
        data = file.read()
    return lzma.decompress(data) if path.endswith(".xz") else data


def cpio(entries):
    """A newc archive of (name, mode, data): what the kernel takes for an initrd."""
    archive = bytearray()
    for inode, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        fields = [inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        archive += b"070701" + b"".join(b"%08X" % field for field in fields)
        archive += name.encode() + b"\0"
        archive += b"\0" * (-len(archive) % 4) + data
        archive += b"\0" * (-len(archive) % 4)
    return bytes(archive)


def settle(tree):
    """Makes of a tree of packages a machine that boots into the checks."""
    def write(path, text):
        path = os.path.join(tree, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    write("etc/hostname", "guest\n")
    write("etc/machine-id", uuid.uuid4().hex + "\n")  # an empty one means a first boot: all presets
    write("etc/fstab", "/dev/vdb /srv ext4 ro 0 0\n")
    units = "etc/systemd/system"
    write(f"{units}/vm-checks.service", CHECKS_UNIT)
    write(f"{units}/systemd-udev-trigger.service.d/disks.conf", UDEV_DROP_IN)
    os.symlink("/lib/systemd/system/multi-user.target", os.path.join(tree, units, "default.target"))
    wants = os.path.join(tree, units, "multi-user.target.wants")
    os.makedirs(wants, exist_ok=True)
    os.symlink("../vm-checks.service", os.path.join(wants, "vm-checks.service"))
    for name in MASKED:
        path = os.path.join(tree, units, name)
        if not os.path.lexists(path):
            os.symlink("/dev/null", path)
