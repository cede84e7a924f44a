# SPDX-License-Identifier: MIT
"""A dockerd of the test's own: its data, its containerd, its socket lie in the test's folder, and it
touches neither the network nor the machine's own dockerd."""
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../e2e"))
from harness import need_root, skip, until  # noqa: E402

IMAGE = "andiron-test:1"
PR_SET_CHILD_SUBREAPER = 36


def children():
    """Processes whose parent this one is: also those that a killed dockerd left."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.append(int(name))
    return found


def end_process(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


class Dockerd:
    def __init__(self, folder):
        need_root()
        for program in ("dockerd", "docker", "containerd", "runc"):
            if shutil.which(program) is None:
                skip(f"{program} is not installed: scripts/install-packages.sh docker")
        self.busybox = next((path for path in ("/bin/busybox", "/usr/bin/busybox")
                             if os.path.exists(path)), None)
        if self.busybox is None:
            skip("busybox is not installed: scripts/install-packages.sh docker")
        # What a killed dockerd leaves becomes ours: to reap, and to end with the test.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.folder = folder
        self.socket = folder / "d.sock"
        self.log_path = folder / "dockerd.log"
        self.process = None

    def __enter__(self):
        self.start()
        self.load_image()
        return self

    def __exit__(self, *_):
        running = self.docker("ps", "-aq", check=False).stdout.split()
        if running:
            self.docker("rm", "--force", *running, check=False)
        self.stop()
        while left := children():  # a shim's containers become ours when it ends
            for pid in left:
                end_process(pid)
        # What a killed dockerd leaves mounted keeps the folder from being removed.
        with open("/proc/self/mountinfo") as mounts:
            points = [line.split()[4] for line in mounts if self.folder.path in line]
        for point in reversed(points):
            subprocess.run(["umount", "-l", point], check=False, capture_output=True)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def start(self):
        with open(self.folder / "dockerd.json", "w") as file:
            file.write("{}")  # not the machine's own
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none",
                 "--storage-driver=vfs", "--data-root", self.folder / "data",
                 "--exec-root", self.folder / "exec", "--pidfile", self.folder / "d.pid",
                 "--config-file", self.folder / "dockerd.json",
                 "--host", "unix://" + self.socket],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=dict(os.environ, TMPDIR=self.folder.path))

        def answers():
            if self.process.poll() is not None:
                skip("dockerd cannot run here: " + " / ".join(self.log().splitlines()[-3:]))
            return self.docker("version", check=False).returncode == 0

        until("dockerd to answer", answers)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def kill(self):
        """dockerd and its containerd, as a crash of the machine's services would; its containers'
        shims live on."""
        with open(self.folder / "exec/containerd/containerd.pid") as file:
            containerd = int(file.read())
        self.process.kill()
        self.process.wait()
        end_process(containerd)

    def docker(self, *arguments, check=True, timeout=120):
        done = subprocess.run(["docker", "--host", "unix://" + self.socket, *arguments],
                              capture_output=True, text=True, timeout=timeout,
                              env=dict(os.environ, DOCKER_BUILDKIT="0"))  # buildx is another package
        if check and done.returncode != 0:
            raise AssertionError(f"docker {arguments}: {done.stderr}\n{self.log()[-3000:]}")
        return done

    def load_image(self):
        archive = self.folder / "image.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(os.path.realpath(self.busybox), "bin/busybox")
            link = tarfile.TarInfo("bin/sh")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        self.docker("import", archive, IMAGE)

    def run(self, name, *options, command=("/bin/busybox", "sleep", "100000")):
        """Runs a container in the background, or skips where this machine does not let it."""
        done = self.docker("run", "--detach", "--network", "none", "--name", name, *options, IMAGE,
                           *command, check=False)
        if done.returncode != 0:
            skip("dockerd cannot run containers here: " + done.stderr.strip()[-300:])
