# SPDX-License-Identifier: MIT
"""The lease protocol by hand: for tests that say what no client of ours would say."""
import json
import mmap
import os
import socket
import time

MAX_PACKET = 64 * 1024


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class Connection:
    """One connection to the lease socket. Packets come as (object, descriptors)."""

    def __init__(self, path, timeout=60):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.hello, _ = self.receive()
        if self.hello["op"] == "refused":
            raise Refused(self.hello["code"], self.hello["message"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, message, fds=()):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        socket.send_fds(self.socket, [data], list(fds))

    def receive(self):
        """(None, []) at the end."""
        data, fds, flags, _ = socket.recv_fds(self.socket, MAX_PACKET, 256)
        assert flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) == 0, flags
        return (json.loads(data) if data else None), fds

    def lease(self, model=None, fd=None, wait_ms=0, **more):
        request = {"op": "lease", "tier": "pinned-ram", "wait_ms": wait_ms, **more}
        if model is not None:
            request["model"] = model
        if fd is not None:
            request["source_fd"] = 0
        self.send(request, [] if fd is None else [fd])
        return self.granted()

    def granted(self):
        answer, fds = self.receive()
        if answer is None:
            raise Refused("end", "the agent hung up")
        if answer["op"] == "refused":
            assert not fds
            raise Refused(answer["code"], answer["message"])
        assert answer["op"] == "granted" and answer["fds"] == len(fds), answer
        more = answer["more"]
        while more:
            packet, further = self.receive()
            assert packet["op"] == "fds" and packet["fds"] == len(further) <= 64, packet
            fds += further
            more = packet["more"]
        return Lease(answer, fds)


class Lease:
    def __init__(self, answer, fds):
        self.answer = answer
        self.fds = fds
        self.index = json.loads(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))

    def segment(self, place=0):
        """A read-only mapping."""
        segment = self.index["segments"][place]
        return mmap.mmap(self.fds[segment["fd"]], segment["bytes"], mmap.MAP_SHARED,
                         mmap.PROT_READ, offset=segment["offset"])

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []


def lease_path(agent):
    return os.path.join(agent.run_dir, "lease.sock")


def until_granted(agent, model, seconds=60):
    """A connection and its lease, as soon as there is one to be had."""
    end = time.monotonic() + seconds
    while True:
        connection = Connection(lease_path(agent))
        try:
            return connection, connection.lease(model)
        except Refused:
            connection.socket.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
