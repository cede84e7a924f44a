# SPDX-License-Identifier: MIT
"""A lease, and what it gives out."""
from __future__ import annotations

import mmap
import os
import select
import threading
import time
import types
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

from ._connection import Connection, close_all
from ._dtypes import as_numpy, as_torch
from ._errors import Error, broken
from ._index import Grant, Index, MapFile, SegmentEntry, TensorEntry, take_grant, tensor_entry

if TYPE_CHECKING:
    import numpy as _numpy
    import torch as _torch

# So that a peer that never stops sending does not keep anybody.
_PACKETS_AT_ONCE = 64
# What may be asked of the system's clocks.
_LONGEST = 86400.0


class Revocation(NamedTuple):
    """The agent asks for the lease's end: a stable name for why, and within how many seconds it would
    like to have the bytes back."""
    reason: str
    deadline: float


OnRevoke = Callable[["Lease", Revocation], Any]


class _Mapped:
    """The mappings of a lease, until it is closed."""

    def __init__(self, maps: list[Optional[mmap.mmap]]) -> None:
        self._maps: Optional[list[Optional[mmap.mmap]]] = maps

    def view(self, segment: SegmentEntry, offset: int, size: int) -> memoryview:
        if self._maps is None:
            raise ValueError("the lease is closed")
        mapped = self._maps[segment.fd]
        if mapped is None or size == 0:
            return memoryview(b"")
        begin = segment.offset + offset
        return memoryview(mapped)[begin:begin + size]

    def close(self) -> None:
        # Never mmap.close(): numpy can point into a mapping without the mapping knowing, and it has to stay
        # for whoever has a view of it. It goes with the last of them, which may be now.
        self._maps = None


class Segment:
    """A run of a file's bytes."""
    __slots__ = ("_entry", "_mapped")

    def __init__(self, entry: SegmentEntry, mapped: _Mapped) -> None:
        self._entry = entry
        self._mapped = mapped

    @property
    def file(self) -> str:
        """The file's name within the model."""
        return self._entry.file

    @property
    def file_offset(self) -> int:
        """Where in the file it begins."""
        return self._entry.file_offset

    @property
    def bytes(self) -> int:
        return self._entry.bytes

    @property
    def data(self) -> memoryview:
        """The bytes, read-only, without a copy. ValueError once the lease is closed."""
        return self._mapped.view(self._entry, 0, self._entry.bytes)

    def __repr__(self) -> str:
        return f"<andiron.Segment {self.file!r} {self.bytes} bytes at {self.file_offset}>"


class Tensor:
    """A tensor, as its file's header has it. What `data`, `numpy()` and `torch()` give has no copy
    behind it, and stays valid when the lease is closed: the memory then goes with the last of them, and
    the agent counts it as draining until then."""
    __slots__ = ("_entry", "_segment", "_mapped", "_is_gguf")

    def __init__(self, entry: TensorEntry, segment: SegmentEntry, mapped: _Mapped,
                 is_gguf: Callable[[SegmentEntry], bool]) -> None:
        self._entry = entry
        self._segment = segment
        self._mapped = mapped
        self._is_gguf = is_gguf

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def dtype(self) -> str:
        """The format's own word: "F16", "BF16", "Q4_K", ..."""
        return self._entry.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """In the format's own order, as `andironctl resolve` prints it: GGUF has the fastest dimension
        first, the reverse of what `numpy()` and `torch()` have."""
        return self._entry.shape

    @property
    def file(self) -> str:
        """The name of its file within the model."""
        return self._segment.file

    @property
    def file_offset(self) -> int:
        """Where in the file it begins."""
        return self._segment.file_offset + self._entry.offset

    @property
    def bytes(self) -> int:
        return self._entry.bytes

    @property
    def data(self) -> memoryview:
        """The bytes, read-only. ValueError once the lease is closed."""
        return self._mapped.view(self._segment, self._entry.offset, self._entry.bytes)

    def _row_major(self) -> tuple[int, ...]:
        return self.shape[::-1] if self._is_gguf(self._segment) else self.shape

    def numpy(self) -> _numpy.ndarray[Any, Any]:
        """A read-only array over the bytes. BF16 and the 8-bit floats, which numpy lacks, are uint16
        and uint8: the bits as they are. Error `unsupported` for quantised types."""
        array: _numpy.ndarray[Any, Any] = as_numpy(self.data, self.dtype, self._row_major())
        return array

    def torch(self) -> _torch.Tensor:
        """A tensor over the bytes. torch knows no read-only tensors: writing to it (`add_()`, `copy_()`,
        training) is a crash (SIGSEGV); `clone()` it for that. Error `unsupported` for types that torch
        lacks."""
        return as_torch(self.data, self.dtype, self._row_major())

    def __repr__(self) -> str:
        return f"<andiron.Tensor {self.name!r} {self.dtype} {list(self.shape)}>"


class _Tensors(Mapping[str, Tensor]):
    """By name; of two files that have one of the same name, the first one's. They are read when somebody
    first asks, so that a lease takes as long for few as for many; where they make no sense, that is an Error
    then. ValueError once the lease is closed, if nobody asked before."""

    def __init__(self, index: Index, mapped: _Mapped) -> None:
        self._index = index
        self._mapped = mapped

    def __getitem__(self, name: str) -> Tensor:
        table = self._index.tensors.table()
        entry = tensor_entry(table.entries[table.places[name]], self._index.segments)
        return Tensor(entry, self._index.segments[entry.segment], self._mapped, self._is_gguf)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.tensors.table().places)

    def __len__(self) -> int:
        return len(self._index.tensors.table().places)

    def _is_gguf(self, segment: SegmentEntry) -> bool:
        for first in self._index.segments:
            if first.file == segment.file and first.file_offset == 0:
                return bytes(self._mapped.view(first, 0, min(first.bytes, 4))) == b"GGUF"
        return segment.file.endswith(".gguf")


def map_shared(fd: int, size: int) -> mmap.mmap:
    """Read-only, the agent's own pages."""
    return mmap.mmap(fd, size, access=mmap.ACCESS_READ)


def attach(request: dict[str, Any], fd: Optional[int], wait: float, timeout: float,
           socket: Optional[str], map_file: MapFile) -> Grant:
    """Connects, asks and maps, or Error. Blocks for wait + timeout seconds at most."""
    if not 0 <= wait <= _LONGEST or not 0 < timeout <= _LONGEST:
        raise Error("bad_request", "wait and timeout are seconds, up to a day")
    answers = time.monotonic() + timeout
    connection = Connection(socket, answers)
    try:
        connection.greet(answers)
        connection.send({"op": "lease", **request, "wait_ms": int(wait * 1000)}, fd, answers)
        return take_grant(connection, answers + wait, map_file)
    except BaseException:
        connection.close()
        raise


def _watch(connection: Connection, wake: int, lease: weakref.ref[Lease], on_revoke: OnRevoke) -> None:
    """The thread that tells of a revoke. It keeps nothing of the lease alive."""
    poll = select.poll()
    poll.register(connection.socket, select.POLLIN)
    poll.register(wake, select.POLLIN)
    try:
        while not any(fd == wake for fd, _ in poll.poll()):
            held = lease()
            if held is None:
                return
            revocation = held._hear()
            if held._ended:
                poll.unregister(connection.socket)
            if revocation is not None:
                on_revoke(held, revocation)
            del held
    finally:
        os.close(wake)


class Lease:
    """The right to use a model's bytes, until it is closed. Made by `lease()`. Any thread may use it."""

    def __init__(self, grant: Grant, on_revoke: Optional[OnRevoke]) -> None:
        self._connection = grant.connection
        self._lock = threading.Lock()
        self._closed = False
        self._ended = False
        self._revocation: Optional[Revocation] = None
        self._wake: Optional[int] = None
        self._watched = on_revoke is not None
        self._mapped = _Mapped(grant.maps)
        index = grant.contents
        self._index = index
        self.model = index.model
        self.tier = index.tier
        self.number = grant.number
        """The agent's number for it: `andironctl events` has it."""
        self.generation = index.generation
        """Counts up with each change of the model's files."""
        self.bytes = index.bytes
        self.segments = tuple(Segment(entry, self._mapped) for entry in index.segments)
        self.tensors: Mapping[str, Tensor] = _Tensors(index, self._mapped)
        if on_revoke is not None:
            wake, self._wake = os.pipe()
            threading.Thread(target=_watch, name="andiron-lease", daemon=True,
                             args=(self._connection, wake, weakref.ref(self), on_revoke)).start()

    def _hear(self) -> Optional[Revocation]:
        """What came since, without waiting: the last revoke."""
        heard = None
        with self._lock:
            for _ in range(_PACKETS_AT_ONCE):
                if self._closed or self._ended:
                    break
                try:
                    packet = self._connection.receive_now()
                    if packet is None:
                        break
                    if packet.fds:
                        close_all(packet.fds)
                        raise broken("descriptors that nobody asked for")
                except Error:
                    # Hung up, or nothing that can be understood any longer: the lease is over, and its
                    # bytes stay.
                    self._ended = True
                    break
                if packet.message["op"] == "revoke":
                    heard = _revocation(packet.message)
            if heard is not None:
                self._revocation = heard
        return heard

    def _listen(self) -> None:
        # Where there is a thread, it is the one that hears, or on_revoke would miss what we took.
        if not self._watched:
            self._hear()

    @property
    def revoked(self) -> Optional[Revocation]:
        """The revocation, once the agent sent one; else None. Who can should close the lease then; who
        cannot keeps valid bytes, which count as used until then."""
        self._listen()
        return self._revocation

    @property
    def ended(self) -> bool:
        """Whether the agent has gone. The bytes stay valid until the lease is closed."""
        self._listen()
        return self._ended

    @property
    def closed(self) -> bool:
        return self._closed

    def wait_revoked(self, seconds: Optional[float] = None) -> Optional[Revocation]:
        """Waits for a revocation, up to that long; None where there was none. Error `unavailable` when
        the agent goes meanwhile. Not together with `on_revoke`."""
        if self._watched:
            raise Error("bad_request", "on_revoke is who hears of it")
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            if self.revoked is not None:
                return self._revocation
            if self._ended or self._closed:
                raise Error("unavailable", "the lease is over")
            left = None if end is None else max(end - time.monotonic(), 0.0)
            if not self._connection.wait(left):
                return None

    def fileno(self) -> int:
        """To select or poll for reading: then look at `revoked`. It stays the lease's own."""
        return self._connection.socket.fileno()

    def close(self) -> None:
        """Ends the lease and unmaps what nobody has a view of any longer; the rest goes with its last
        view. Again is nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            # Unmapped before the agent hears of the end, so that nothing is left to drain.
            self._mapped.close()
            self._index.tensors.let_go()
            if self._wake is not None:
                os.close(self._wake)  # ends the thread
                self._wake = None
            self._connection.close()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_wake"):
            self.close()

    def __repr__(self) -> str:
        return f"<andiron.Lease {self.number} of {self.model!r}{', closed' if self._closed else ''}>"


def _revocation(message: dict[str, Any]) -> Revocation:
    deadline = message.get("deadline_ms")
    return Revocation(str(message.get("reason", ""))[:64],
                      deadline / 1000 if type(deadline) is int and 0 <= deadline < 1 << 32 else 0.0)


def lease(model: Optional[str] = None, *, fd: Union[int, Any, None] = None, tier: str = "pinned-ram",
          wait: float = 0.0, timeout: float = 5.0, socket: Optional[str] = None,
          on_revoke: Optional[OnRevoke] = None) -> Lease:
    """Asks the agent for a lease; `Error` where there is none.

    model: its name, as `andironctl status` shows it.
    fd: instead, one of its files, open for reading, or its descriptor. It stays the caller's, and is what
        proves that the caller may read the file. The lease is on this file alone.
    wait: how many seconds the agent may load, where the model is not there yet; 0: not at all.
    timeout: how many seconds it may take to answer apart from that.
    socket: in place of $ANDIRON_LEASE_SOCKET and of /run/andiron/lease.sock.
    on_revoke: called with the lease and the Revocation, on a thread that is there for it, when the agent
        asks for the lease's end. It may close the lease.
    """
    if (model is None) == (fd is None):
        raise Error("bad_request", "either a model or an fd")
    request: dict[str, Any] = {"tier": tier}
    number = None
    if fd is not None:
        number = fd if isinstance(fd, int) else fd.fileno()
        request["source_fd"] = 0
    else:
        request["model"] = model
    return Lease(attach(request, number, wait, timeout, socket, map_shared), on_revoke)
