#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vm.py BUILD KERNEL: boots Debian 12 with that kernel under qemu, installs Andiron there and
checks it under its systemd, boot after boot of one disk. Everything lies in build/vm. Prints a line
for each check, with its seconds."""
import glob
import os
import platform
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import image as images  # noqa: E402
from harness import MIB, need_root, skip, write_gguf  # noqa: E402
from machine import Machine  # noqa: E402

# Enough for the system and two models; little enough for a hog to reach the end of it soon.
MEMORY_MIB = 640
MODEL_MIB = 96
# A boot takes 20 s and its checks up to two minutes; emulated, on a busy machine, several times
# that.
BOOT_SECONDS = 600
BOOTS = ["install", "preload", "missing"]


def need_this_machine():
    need_root()
    if platform.machine() != "x86_64":
        skip("the guests are x86_64")
    with open("/etc/os-release") as file:
        release = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    if (release.get("ID"), release.get("VERSION_ID", "").strip('"')) != ("debian", "12"):
        skip("the guests are Debian 12, and may not run what is built on "
             + release.get("PRETTY_NAME", "this system"))
    missing = [tool for tool in ("mmdebstrap", "qemu-system-x86_64", "qemu-img", "mke2fs", "cmake")
               if not shutil.which(tool)]
    if missing:
        skip(f"not installed: {', '.join(missing)} (scripts/install-packages.sh vm)")


def make_payload(build, folder):
    """The guest's second disk: the checks, Andiron, and models. The disk's path."""
    tree = os.path.join(folder, "payload")
    disk = os.path.join(folder, "payload.img")
    shutil.rmtree(tree, ignore_errors=True)
    if os.path.exists(disk):
        os.unlink(disk)
    os.makedirs(os.path.join(tree, "models"))
    vm = os.path.join(tree, "vm")
    os.makedirs(vm)
    for source in ("tests/vm/guest.py", "tests/vm/checks.py", "tests/vm/system.py",
                   "tests/e2e/harness.py", "tests/e2e/lease_wire.py",
                   "configs/oci-hooks/andiron.json"):
        shutil.copy(os.path.join(ROOT, source), vm)
    recipe = os.path.join(build, "CPackConfig.cmake")
    if os.path.exists(recipe):
        packing = os.path.join(folder, "packing")
        subprocess.run(["cpack", "-G", "DEB", "--config", recipe, "-B", packing], check=True,
                       stdout=subprocess.DEVNULL)
        package, = glob.glob(os.path.join(packing, "andiron_*.deb"))
        shutil.move(package, os.path.join(vm, "andiron.deb"))
    else:
        stage = os.path.join(vm, "stage")
        subprocess.run(["cmake", "--install", build, "--prefix", "/usr", "--strip"], check=True,
                       env={**os.environ, "DESTDIR": stage}, stdout=subprocess.DEVNULL)
        shutil.copytree(os.path.join(HERE, "staged"), os.path.join(stage, "etc/systemd/system"))
    for seed, name in enumerate(["assistant", "other"]):
        write_gguf(os.path.join(tree, "models", f"{name}.gguf"), MODEL_MIB * MIB, seed)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", tree, disk,
                    f"{3 * MODEL_MIB}M"], check=True)
    shutil.rmtree(tree)
    return disk


class Printer:
    """Says each thing once, and counts."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.counts = {"pass": 0, "fail": 0, "skip": 0}

    def __call__(self, report):
        result = report["result"]
        self.counts[result] += 1
        self.line(result, report["seconds"], report["check"], report["why"])
        if report["output"]:
            print("\n".join("    | " + line for line in report["output"].splitlines()), flush=True)

    def line(self, result, seconds, what, why=""):
        print(f"{result} {seconds:6.1f} s  {self.kernel}  {what}" + (f": {why}" if why else ""),
              flush=True)


def main():
    build, kernel = sys.argv[1:]
    need_this_machine()
    folder = os.path.join(ROOT, "build", "vm")
    printer = Printer(kernel)
    begin = time.monotonic()
    try:
        image = images.image(os.path.join(folder, "image"))
        machine_folder = os.path.join(folder, kernel)
        shutil.rmtree(machine_folder, ignore_errors=True)
        os.makedirs(machine_folder)
        payload = make_payload(os.path.abspath(build), machine_folder)
        machine = Machine(machine_folder, image, kernel, payload, MEMORY_MIB)
    except images.Unavailable as reason:
        skip(str(reason))
    printer.line("made", time.monotonic() - begin, "the image, and the disks")
    for boot in BOOTS:
        begin = time.monotonic()
        wrong = machine.boot(boot, BOOT_SECONDS, printer)
        printer.line("boot", time.monotonic() - begin, f"{boot}, from power on to off")
        if wrong:
            printer({"check": f"boot {boot}", "result": "fail", "seconds": 0, "why": wrong,
                     "output": machine.console_tail()})
            break  # the next boot would find a disk that nobody knows
    print(", ".join(f"{count} {result}" for result, count in printer.counts.items()))
    return 1 if printer.counts["fail"] or not printer.counts["pass"] else 0


if __name__ == "__main__":
    sys.exit(main())
