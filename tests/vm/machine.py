# SPDX-License-Identifier: MIT
"""Runs one guest under qemu, and reads what its checks report.

The guest has two serial lines: the console, and one on which tests/vm/guest.py writes a JSON object
a line. It powers itself off at the end. Whatever it does, it is over at the deadline.
"""
import ctypes
import json
import os
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
# Without cmpxchg16b: qemu 7.2 gets its flags wrong without a lock prefix, which is how the memory
# allocator of newer kernels uses it (6.12 dies of that while it boots). They have another way.
CPU = "max,cx16=off"


def die_with_parent():
    """In the child, before qemu: a driver that is killed leaves no guest behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Machine:
    """`folder` is for this guest's own files; its disk lives on for the next boot of it."""

    def __init__(self, folder, image, kernel, payload, memory_mib):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.kernel, self.initrd = image.kernel(kernel)
        self.payload = payload
        self.memory_mib = memory_mib
        self.disk = os.path.join(folder, "disk.qcow2")
        self.console = ""
        if os.path.exists(self.disk):
            os.unlink(self.disk)
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b",
                        os.path.abspath(image.disk), self.disk], check=True)

    def command(self, boot, reports):
        drive = "if=none,cache=writeback,aio=threads"
        return [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
            "-nic", "none", "-no-reboot", "-accel", "tcg", "-smp", "2", "-cpu", CPU,
            "-m", str(self.memory_mib),
            "-kernel", self.kernel, "-initrd", self.initrd,
            "-append", f"console=ttyS0 panic=-1 quiet systemd.show_status=1 andiron.boot={boot}",
            "-drive", f"{drive},id=disk,format=qcow2,file={self.disk}",
            "-device", "virtio-blk-pci,drive=disk",
            "-drive", f"{drive},id=payload,format=raw,readonly=on,file={self.payload}",
            "-device", "virtio-blk-pci,drive=payload",
            "-serial", f"file:{self.console}", "-serial", f"file:{reports}",
        ]

    def boot(self, name, seconds, on_report):
        """Boots into the checks called `name` and hands each of their reports to on_report().
        None: the guest said that it was through, and powered off. Else what went wrong."""
        self.console = os.path.join(self.folder, f"{name}.console")
        reports = os.path.join(self.folder, f"{name}.reports")
        open(reports, "w").close()
        end = time.monotonic() + seconds
        with open(os.path.join(self.folder, f"{name}.qemu"), "w") as log:
            qemu = subprocess.Popen(self.command(name, reports), stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log, preexec_fn=die_with_parent)
        try:
            finished = False
            with open(reports, "rb") as file:
                pending = b""
                while True:
                    over = qemu.poll() is not None  # asked first: what it wrote last is read yet
                    pending += file.read()
                    *lines, pending = pending.split(b"\n")
                    for line in lines:
                        report = json.loads(line)
                        finished = finished or report.get("end", False)
                        if "check" in report:
                            on_report(report)
                    if over:
                        break
                    if time.monotonic() > end:
                        return f"not over after {seconds} s"
                    time.sleep(0.1)
            if qemu.returncode != 0:
                return f"qemu ended with {qemu.returncode}: {open(log.name).read()}"
            return None if finished else "the guest went down before its checks were through"
        finally:
            if qemu.poll() is None:
                qemu.kill()
                qemu.wait()

    def console_tail(self, lines=60):
        with open(self.console, errors="replace") as file:
            return "\n".join(file.read().replace("\r", "").splitlines()[-lines:])
