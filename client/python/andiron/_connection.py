# SPDX-License-Identifier: MIT
"""The lease socket: packets, descriptors and deadlines. Nothing here waits past its deadline, and every
descriptor that came is either given out or closed."""
from __future__ import annotations

import array
import errno
import json
import os
import select
import socket
import struct
import time
from typing import Any, NamedTuple, Optional

from ._errors import Error, broken

DEFAULT_SOCKET = "/run/andiron/lease.sock"
PROTOCOL = 1
# What the protocol allows in a packet.
MAX_PACKET_BYTES = 64 * 1024
MAX_PACKET_FDS = 64
# As many as the kernel passes in one packet (SCM_MAX_FD), so that too many are seen and closed
# here instead of being cut off.
ROOM_FOR_FDS = 253


class Packet(NamedTuple):
    """A packet of the agent's: what it says, and the descriptors that came with it, which belong to
    whoever takes it."""
    message: dict[str, Any]
    fds: list[int]


def close_all(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())


def natural(value: Any) -> int:
    """A whole number from 0 that is a file's offset to the system, or Error."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise Error("bad_format", "the agent sent what is no number")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise Error("bad_format", "the agent sent what is no string")
    return value


def raise_refusal(message: dict[str, Any]) -> None:
    """Raises what a refusal says; another packet is nothing."""
    if message["op"] == "refused":
        raise Error(text(message.get("code")), text(message.get("message", "")))


def _error_of(failed: OSError, doing: str) -> Error:
    if failed.errno in (errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED):
        return Error("unavailable", f"there is no agent: {failed.strerror}")
    if failed.errno in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
        return Error("unavailable", "the agent hung up")
    if failed.errno == errno.EPROTOTYPE:
        return Error("unavailable", "what listens there is no agent")
    if failed.errno == errno.EAGAIN or isinstance(failed, TimeoutError):
        return Error("timeout", f"{doing}: the agent did not answer")
    if failed.errno in (errno.EACCES, errno.EPERM):
        return Error("permission_denied", f"{doing}: {failed.strerror}")
    return Error("io_error", f"{doing}: {failed.strerror or failed}")


def _seconds_until(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)


def _fds_of(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
    return fds.tolist()


class Connection:
    """A connection to the agent. One thread at a time."""

    def __init__(self, path: Optional[str], deadline: float) -> None:
        path = path or os.environ.get("ANDIRON_LEASE_SOCKET") or DEFAULT_SOCKET
        if "\0" in path:
            raise Error("bad_request", f"no path of a socket: {path!r}")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            # A listener with a full backlog has connect() block, and only the send timeout ends that.
            left = max(_seconds_until(deadline), 0.001)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                                   struct.pack("@ll", int(left), int(left % 1 * 1e6)))
            self.socket.connect(path)
        except OSError as failed:
            self.close()
            if failed.errno is None:  # Python's own: no path of a socket
                raise Error("bad_request", f"'{path}': {failed}") from None
            raise _error_of(failed, f"connect to {path}") from None

    def close(self) -> None:
        self.socket.close()

    def greet(self, deadline: float) -> None:
        """Takes the agent's hello, in place of which one that has too many clients refuses."""
        packet = self.receive(deadline)
        if packet.fds:
            close_all(packet.fds)
            raise broken("no hello")
        raise_refusal(packet.message)
        if packet.message["op"] != "hello":
            raise broken("no hello")
        if packet.message.get("protocol") != PROTOCOL:
            raise Error("unavailable", f"the agent speaks protocol {packet.message.get('protocol')}, "
                                       f"this package speaks {PROTOCOL}")

    def send(self, message: dict[str, Any], fd: Optional[int], deadline: float) -> None:
        packet = json.dumps(message).encode()
        if len(packet) > MAX_PACKET_BYTES:
            raise Error("bad_request", "a name that is too long")
        ancillary = []
        if fd is not None:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self.socket.settimeout(max(_seconds_until(deadline), 0.001))
        try:
            self.socket.sendmsg([packet], ancillary, socket.MSG_NOSIGNAL)
        except OSError as failed:
            raise _error_of(failed, "ask the agent") from None

    def receive(self, deadline: float) -> Packet:
        while True:
            if not self.wait(_seconds_until(deadline)):
                raise Error("timeout", "the agent did not answer")
            packet = self.receive_now()
            if packet is not None:
                return packet

    def wait(self, seconds: Optional[float]) -> bool:
        """Whether something came within that time, the end of the connection included."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def receive_now(self) -> Optional[Packet]:
        """What is there; nothing is None."""
        self.socket.settimeout(None)
        try:
            data, ancillary, flags, _ = self.socket.recvmsg(
                MAX_PACKET_BYTES, socket.CMSG_SPACE(ROOM_FOR_FDS * 4),
                socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        except OSError as failed:
            raise _error_of(failed, "hear from the agent") from None
        fds = _fds_of(ancillary)
        try:
            message = self._read(data, flags, len(fds))
        except Error:
            close_all(fds)
            raise
        return Packet(message, fds)

    @staticmethod
    def _read(data: bytes, flags: int, fds: int) -> dict[str, Any]:
        if not data:  # An empty packet looks like the end; the protocol has none.
            raise Error("unavailable", "the agent hung up")
        if flags & socket.MSG_TRUNC:
            raise broken("a packet that is too long")
        if flags & socket.MSG_CTRUNC:
            raise Error("io_error", "not all descriptors came: see the limit of open files")
        if fds > MAX_PACKET_FDS:
            raise broken("too many descriptors in a packet")
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            raise broken("a packet that is not JSON") from None
        if not isinstance(message, dict) or not isinstance(message.get("op"), str):
            raise broken("a packet without 'op'")
        return message
