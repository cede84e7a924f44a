#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A file system that can stop answering, as a server in the network can.

    stalling_fs.py BACKING_FOLDER MOUNT_POINT

serves the plain files of a folder, read-only, by the protocol of /dev/fuse. It answers "ready" on
stdout, then takes commands on stdin, each acknowledged by "ok":

    stall reads OFFSET   keeps requests to read at OFFSET or beyond, answers all others
    stall all            takes no request at all any longer (their waiters can be killed)
    go                   answers what was kept, and goes on

The end of stdin, or of the process, ends the connection: who still waits gets ECONNABORTED.
"""
import ctypes
import errno
import os
import select
import stat
import struct
import subprocess
import sys

# Of <linux/fuse.h>, protocol 7.31: new enough for FOPEN_KEEP_CACHE and max_pages, and all that
# is needed here.
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 26, 27, 28, 29, 36, 38, 42
KEEP_CACHE = 1 << 1  # an open must not empty the page cache
ASYNC_READ, MAX_PAGES = 1 << 0, 1 << 22
ROOT = 1
IN_HEADER = struct.Struct("<IIQQIIIHH")
MAX_WRITE = 128 * 1024


class Server:
    def __init__(self, folder, fd):
        self.fd = fd
        names = sorted(name for name in os.listdir(folder)
                       if os.path.isfile(os.path.join(folder, name)))
        self.nodes = {ROOT + 1 + i: name for i, name in enumerate(names)}
        self.files = {node: os.open(os.path.join(folder, name), os.O_RDONLY)
                      for node, name in self.nodes.items()}
        self.ids = {name: node for node, name in self.nodes.items()}
        self.read_limit = None
        self.kept = []
        self.stalled = False

    def reply(self, unique, body=b"", error=0):
        try:
            os.write(self.fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)
        except OSError as failure:
            if failure.errno != errno.ENOENT:  # its waiter was killed
                raise

    def attributes(self, node):
        if node == ROOT:
            size, mode, mtime = 0, stat.S_IFDIR | 0o755, 1
        else:
            info = os.fstat(self.files[node])
            size, mode, mtime = info.st_size, stat.S_IFREG | 0o644, int(info.st_mtime)
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, (size + 511) // 512, mtime, mtime,
                           mtime, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def handle(self, request):
        _, opcode, unique, node, *_ = IN_HEADER.unpack_from(request)
        body = request[IN_HEADER.size:]
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return  # these have no answer
        if opcode == INIT:
            self.reply(unique, struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 20,
                                           ASYNC_READ | MAX_PAGES, 64, 48, MAX_WRITE, 1, 256, 0,
                                           0))
            print("ready", flush=True)
        elif opcode == LOOKUP:
            found = self.ids.get(body.rstrip(b"\0").decode())
            if found is None:
                return self.reply(unique, error=errno.ENOENT)
            # Names and attributes are valid for no time, so that each look at them asks here.
            self.reply(unique, struct.pack("<QQQQII", found, 0, 0, 0, 0, 0)
                       + self.attributes(found))
        elif opcode == GETATTR:
            self.reply(unique, struct.pack("<QII", 0, 0, 0) + self.attributes(node))
        elif opcode in (OPEN, OPENDIR):
            self.reply(unique, struct.pack("<QIi", node, KEEP_CACHE if opcode == OPEN else 0, 0))
        elif opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            if self.read_limit is not None and offset >= self.read_limit:
                self.kept.append(request)
            else:
                self.reply(unique, os.pread(self.files[node], size, offset))
        elif opcode == READDIR:
            _, offset, size = struct.unpack_from("<QQI", body)
            self.reply(unique, self.entries(offset, size))
        elif opcode == STATFS:
            self.reply(unique, struct.pack("<QQQQQIIII24x", 1 << 20, 0, 0, len(self.nodes), 0, 4096,
                                           255, 4096, 0))
        elif opcode in (RELEASE, RELEASEDIR, DESTROY):
            self.reply(unique)
        else:  # FLUSH too: the kernel does not ask again
            self.reply(unique, error=errno.ENOSYS)

    def entries(self, offset, size):
        out = b""
        for at, (node, name) in list(enumerate(self.nodes.items(), 1))[offset:]:
            encoded = name.encode()
            entry = struct.pack("<QQII", node, at, len(encoded), stat.S_IFREG >> 12) + encoded
            entry += b"\0" * (-len(entry) % 8)
            if len(out) + len(entry) > size:
                break
            out += entry
        return out

    def obey(self, command):
        words = command.split()
        if words[:2] == ["stall", "reads"]:
            self.read_limit = int(words[2])
        elif words == ["stall", "all"]:
            self.stalled = True
        elif words == ["go"]:
            self.stalled, self.read_limit = False, None
            kept, self.kept = self.kept, []
            for request in kept:
                self.handle(request)
        else:
            raise ValueError(command)
        print("ok", flush=True)

    def run(self):
        while True:
            wanted = [sys.stdin] if self.stalled else [sys.stdin, self.fd]
            ready, _, _ = select.select(wanted, [], [])
            if sys.stdin in ready:
                line = sys.stdin.readline()
                if not line:
                    return
                self.obey(line)
            elif self.fd in ready:
                try:
                    request = os.read(self.fd, 1 << 20)
                except OSError as failure:
                    if failure.errno == errno.ENODEV:  # unmounted
                        return
                    if failure.errno in (errno.EINTR, errno.ENOENT):
                        continue
                    raise
                self.handle(request)


def mount(fd, mount_point):
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    if libc.mount(b"stalling", os.fsencode(mount_point), b"fuse.stalling", 6,  # nosuid, nodev
                  options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")


class StallingFs:
    """The other end: starts the server, and has it stall and go on. Root only."""

    def __init__(self, backing, mount_point):
        self.mount_point = mount_point
        self.process = subprocess.Popen([sys.executable, __file__, backing, mount_point],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.expect("ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # With the server goes its end of the connection, which aborts every request.
        self.process.kill()
        self.process.wait()
        subprocess.run(["umount", "-l", self.mount_point], check=False, capture_output=True)

    def expect(self, answer):
        line = self.process.stdout.readline().strip()
        assert line == answer, (line, self.process.poll())

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        self.expect("ok")


if __name__ == "__main__":
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    server = Server(sys.argv[1], device)
    mount(device, sys.argv[2])
    server.run()
