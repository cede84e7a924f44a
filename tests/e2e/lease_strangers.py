#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a client of the lease socket that misbehaves can do: nothing to anybody else. Mounts are made
in a namespace of the test's own."""
import contextlib
import os
import signal
import socket
import struct

from harness import MIB, Agent, main, own_namespace, until, write_gguf
from lease_wire import Connection, Refused, lease_path, until_granted
from leases import Somebody, as_user, for_everybody, lease_bytes_equal, refused
from pinned import BOOT, NOBODY, PINNED, config, open_to_all, pinned, until_pinned


def who_misbehaves_hurts_nobody(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, MIB)
    with Agent(build, folder, config(folder, ("m", path, PINNED, BOOT))) as agent:
        until_pinned(agent)
        request = {"op": "lease", "model": "m"}
        fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(200)]
        until_granted(agent, "m")[0].socket.close()
        until("its end", lambda: pinned(agent)["leases"] == 0)
        before = len(os.listdir(f"/proc/{agent.process.pid}/fd"))
        silent = [Connection(lease_path(agent)) for _ in range(20)]  # read nothing
        for misdeed in (
                lambda c: c.send(b"garbage"),
                lambda c: c.send(b"\0" * 65536),
                lambda c: c.send(b'{"op":"lease","model":"' + b"m" * 60000 + b'"}'),
                lambda c: c.send(b"[" * 60000),
                lambda c: c.send(b'{"op":"lease","model":"m","model":"m"}'),
                lambda c: c.send({"op": "grant"}),
                lambda c: c.send({**request, "wait_ms": -1}),
                lambda c: c.send({**request, "source_fd": 0}),
                lambda c: c.send({"op": "lease", "source_fd": 0}),
                lambda c: c.send({"op": "lease", "source_fd": 1}, fds[:1]),
                lambda c: c.send(request, fds[:1]),
                lambda c: c.send({"op": "lease", "source_fd": 0}, fds[:2]),
                lambda c: c.send(request, fds)):
            with Connection(lease_path(agent)) as client:
                misdeed(client)
                refused("bad_request", client.granted)
                until_end(client)
        with Connection(lease_path(agent)) as client:  # longer than a packet may be
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MIB)
            with contextlib.suppress(OSError):
                client.send(b"x" * MIB)
            with contextlib.suppress(OSError, Refused):
                client.granted()
            until_end(client)
        for client in silent:
            with contextlib.suppress(OSError):
                for _ in range(1000):
                    client.socket.send(b'{"op":"lease","model":"nobody"}', socket.MSG_DONTWAIT)
        for _ in range(2000):  # come and go
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(lease_path(agent))
        connection, lease = until_granted(agent, "m")
        assert lease_bytes_equal(lease, path)
        connection.socket.close()
        for client in silent:
            client.socket.close()
        until("descriptors to be closed",
              lambda: len(os.listdir(f"/proc/{agent.process.pid}/fd")) <= before)
        assert agent.get("/v1/status")["tiers"]["pinned-ram"]["leases"] == 0
        agent.stop()


def what_does_not_close_stops_nobody(build, folder):
    """The last reference to a socket that lingers, in packets that are read, and that are not."""
    path = folder / "m.gguf"
    write_gguf(path, MIB)
    open_to_all(folder)
    os.chmod(path, 0o644)
    settings = for_everybody(config(folder, ("m", path, PINNED, BOOT)))
    with Agent(build, folder, settings) as agent, socket.socket() as listener:
        until_pinned(agent)
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def lingering():
            client = socket.create_connection(listener.getsockname())
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    client.send(bytes(65536))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))
            return client

        for packets in ([(b"garbage", 0), (b"unread", 1)], [(b"too many", 9)],
                        [(b'{"op":"lease","source_fd":0}', 1)]):
            agent.process.send_signal(signal.SIGSTOP)  # so that its references are the last ones
            raw = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            raw.connect(lease_path(agent))
            for text, count in packets:
                some = [lingering() for _ in range(count)]
                socket.send_fds(raw, [text], [one.fileno() for one in some])
                for one in some:
                    os.close(one.detach())
            agent.process.send_signal(signal.SIGCONT)
            assert agent.call("GET", "/v1/status", timeout=60)[0] == 200
            raw.close()
            assert agent.call("GET", "/v1/status", timeout=60)[0] == 200
            until_granted(agent, "m")[0].socket.close()
            assert as_user(NOBODY, "m", agent) == "granted"
        agent.kill()


def until_end(client):
    """The agent hangs up."""
    while True:
        try:
            packet, _ = client.receive()
        except ConnectionResetError:
            return
        if packet is None:
            return


def one_user_cannot_take_all_connections(build, folder):
    open_to_all(folder)
    path = folder / "m.gguf"
    write_gguf(path, MIB)
    settings = for_everybody(config(folder, ("m", path, PINNED, BOOT)))
    with Agent(build, folder, settings) as agent:
        until_pinned(agent)
        def take_all():
            held = []
            try:
                while len(held) < 1000:
                    held.append(Connection(lease_path(agent)))
            except Refused as refusal:
                take_all.held = held  # as long as he lives
                return f"{len(held)} {refusal.code}"

        greedy = Somebody(NOBODY, take_all)
        assert greedy.said == "64 unavailable", greedy.said
        assert as_user(1234, "m", agent) == "granted"
        assert as_user(NOBODY, "m", agent) == "unavailable"
        greedy.end()
        until("his connections to be gone", lambda: as_user(NOBODY, "m", agent) == "granted")
        agent.stop()


if __name__ == "__main__":
    own_namespace()
    main([who_misbehaves_hurts_nobody, what_does_not_close_stops_nobody,
          one_user_cannot_take_all_connections])
