# SPDX-License-Identifier: MIT
"""Runs a real agent in a folder of its own, and talks to it as its users do.

Each test is a script that takes the build folder as its argument and exits with 0, with 77 and a
reason printed (a skip), or otherwise. Files lie on a real disk (ANDIRON_TEST_DIR, else /var/tmp):
tmpfs has no page cache to speak of.
"""
import ctypes
import http.client
import json
import mmap
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse

MIB = 1 << 20
GIB = 1 << 30


def skip(reason):
    print(reason)
    sys.exit(77)


def need_root():
    if os.geteuid() != 0:
        skip("needs root")


def own_namespace():
    """What is mounted from here on goes with this process."""
    need_root()
    newns, private_recursive = 0x20000, 0x44000
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(newns) != 0 or libc.mount(None, b"/", None, private_recursive, None) != 0:
        skip(f"no mount namespace of our own: {os.strerror(ctypes.get_errno())}")


def until(what, check, seconds=60):
    """Waits for check() to give something true, and gives it. No test asserts how long it takes."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain for: {what}")
        time.sleep(0.05)


def unit_capabilities():
    """The capabilities that andirond.service keeps."""
    unit = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "../../configs/systemd/andirond.service.in")
    with open(unit) as file:
        line = re.search(r"^CapabilityBoundingSet=(.*)$", file.read(), re.MULTILINE).group(1)
    return [name.removeprefix("CAP_").lower() for name in line.split()]


def confined():
    """Goes before the agent's command line: no more capabilities than the unit gives it."""
    kept = "".join(f",+{name}" for name in unit_capabilities())
    return ["setpriv", "--bounding-set", "-all" + kept, "--inh-caps", "-all", "--no-new-privs"]


class Folder:
    """A temporary folder, removed at the end with all that is in it."""

    def __init__(self):
        self.path = tempfile.mkdtemp(
            prefix="andiron-e2e-", dir=os.environ.get("ANDIRON_TEST_DIR", "/var/tmp"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with open("/proc/self/mounts") as file:
            points = [line.split()[1] for line in file]
        for point in reversed([p for p in points if p.startswith(self.path + "/")]):
            subprocess.run(["umount", "-l", point], check=False, capture_output=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def __truediv__(self, name):
        return os.path.join(self.path, name)


def write_gguf(path, bytes_of_data, seed=1):
    """A GGUF v3 file of one F32 tensor of pseudo-random bytes; synced, so that it can be cold."""
    elements = bytes_of_data // 4
    header = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    header += struct.pack("<Q", 6) + b"weight" + struct.pack("<IQIQ", 1, elements, 0, 0)
    header += b"\0" * (-len(header) % 32)
    block = random.Random(seed).randbytes(MIB)
    with open(path, "wb") as file:
        file.write(header)
        left = elements * 4
        while left > 0:
            file.write(block[:min(left, MIB)])
            left -= MIB
        file.flush()
        os.fsync(file.fileno())
    return os.path.getsize(path)


def make_cold(path):
    """Gives the file's own clean pages back."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def resident(path):
    """Resident bytes, by an independent tool (util-linux fincore), rounded up to pages."""
    out = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", path],
                         check=True, capture_output=True, text=True).stdout
    return int(out.split()[0])


def mincore_resident(path):
    """Resident bytes, by mincore through a mapping of our own: sees through overlayfs, where
    newer versions of fincore ask the wrong inode's cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    fd = os.open(path, os.O_RDONLY)
    size = os.fstat(fd).st_size
    address = libc.mmap(None, size, 0, mmap.MAP_SHARED, fd, 0)  # PROT_NONE: never touched
    os.close(fd)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap", path)
    try:
        found = ctypes.create_string_buffer(pages(size) // 4096)
        if libc.mincore(address, size, found) != 0:
            raise OSError(ctypes.get_errno(), "mincore", path)
        return sum(byte & 1 for byte in found.raw) * 4096
    finally:
        libc.munmap(address, size)


def pages(size):
    return (size + 4095) // 4096 * 4096


def meminfo(key):
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise KeyError(key)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.unix_path)


class Agent:
    """One andirond with its folders. `wrap` goes before its command line; `pass_fds` and
    `environment` are what it gets beyond what every process gets."""

    def __init__(self, build, folder, config="", wrap=(), pass_fds=(), environment=None):
        self.build = build
        self.bin = os.path.join(build, "bin")
        self.run_dir = folder / "run"
        self.state_dir = folder / "state"
        self.config_path = folder / "andiron.toml"
        self.log_path = folder / "agent.log"
        self.socket = os.path.join(self.run_dir, "control.sock")
        self.wrap = list(wrap)
        self.pass_fds = list(pass_fds)
        self.environment = environment or {}
        self.process = None
        self.configure(config)

    def configure(self, text):
        with open(self.config_path, "w") as file:
            file.write(text)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if kind is not None:
            print("-- the end of the agent's log:")
            print("\n".join(self.log().splitlines()[-60:]))

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def start(self):
        self.launch()
        until("the agent to answer", self.answers)

    def folder_options(self):
        return ["--runtime-dir", self.run_dir, "--state-dir", self.state_dir]

    def launch(self):
        """start(), but not waited for."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.wrap + [os.path.join(self.bin, "andirond"), "--config", self.config_path,
                             *self.folder_options()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=self.pass_fds,
                env={**os.environ, **self.environment})

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the agent ended: {self.process.returncode}\n{self.log()}")
        try:
            return self.call("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def stop(self, seconds=30):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(seconds) == 0, self.process.returncode

    def kill(self):
        self.process.kill()
        self.process.wait()

    def call(self, method, path, body=None, timeout=60):
        """(status, JSON body)"""
        connection = UnixConnection(self.socket, timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None
        finally:
            connection.close()

    def get(self, path):
        status, body = self.call("GET", path)
        assert status == 200, (path, status, body)
        return body

    def model(self, name):
        return self.get("/v1/models/" + urllib.parse.quote(name, safe=""))

    def events(self, since=0):
        connection = UnixConnection(self.socket)
        connection.request("GET", f"/v1/events?since={since}")
        lines = connection.getresponse().read().splitlines()
        connection.close()
        return [json.loads(line) for line in lines]

    def event_types(self, model=None):
        return [event["type"] for event in self.events() if model in (None, event["model"])]

    def ctl(self, *arguments, check=True, **kwargs):
        done = subprocess.run([os.path.join(self.bin, "andironctl"), "--socket", self.socket,
                               *arguments], capture_output=True, text=True, **kwargs)
        if check and done.returncode != 0:
            raise AssertionError(f"andironctl {arguments}: {done.returncode}\n{done.stdout}"
                                 f"{done.stderr}")
        return done

    def begin_ctl(self, *arguments):
        """The same, but not waited for."""
        return subprocess.Popen([os.path.join(self.bin, "andironctl"), "--socket", self.socket,
                                 *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def until_state(self, name, state, seconds=60):
        return until(f"{name} to be {state}",
                     lambda: (model := self.model(name))["state"] == state and model, seconds)

    def smaps_locked(self, path):
        """Locked bytes of the agent's mappings of a file, by /proc/PID/smaps."""
        locked = 0
        mine = False
        with open(f"/proc/{self.process.pid}/smaps") as file:
            for line in file:
                fields = line.split()
                if "-" in fields[0] and not fields[0].endswith(":"):
                    mine = line.rstrip().endswith(" " + path)
                elif mine and fields[0] == "Locked:":
                    locked += int(fields[1]) * 1024
        return locked

    def status_field(self, key):
        with open(f"/proc/{self.process.pid}/status") as file:
            for line in file:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
        raise KeyError(key)


def loop_mount(folder, name, mkfs, megabytes, options=""):
    """Makes an image, a file system on it, and mounts it; gives (mount point, undo). Root only."""
    image = folder / (name + ".img")
    mount_point = folder / name
    os.makedirs(mount_point, exist_ok=True)
    with open(image, "wb") as file:
        file.truncate(megabytes * MIB)
    subprocess.run([*mkfs, image], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop" + options, image, mount_point], check=True)

    def undo():
        subprocess.run(["umount", "-l", mount_point], check=False, capture_output=True)
        os.unlink(image)

    return mount_point, undo


def main(tests):
    """Runs each test function with the build folder; names what failed."""
    build = os.path.abspath(sys.argv[1])
    only = sys.argv[2:]
    for test in tests:
        if only and test.__name__ not in only:
            continue
        print(f"-- {test.__name__}", flush=True)
        with Folder() as folder:
            test(build, folder)
    print("all passed")
