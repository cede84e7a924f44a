# SPDX-License-Identifier: MIT
"""What comes with a lease: its index, checked, and its descriptors, mapped."""
from __future__ import annotations

import json
import mmap
import os
import stat
import threading
from typing import Any, Callable, NamedTuple, Optional, Union

from ._connection import Connection, close_all, natural, raise_refusal, text
from ._errors import Error, broken

# A tensor takes some 150 bytes there, and the agent takes no file with more than a million.
MAX_INDEX_BYTES = 256 << 20
# No tensor library goes past 64.
MAX_DIMENSIONS = 64
# As the agent writes it, and most who write JSON.
TENSORS_KEY = b'"tensors":'
# What comes before the tensors, for a hundred files; doubled where that is not enough.
FIRST_READ = 32 << 10

HEAD_KEYS = frozenset(("model", "tier", "generation", "bytes", "files", "segments"))

MapFile = Callable[[int, int], mmap.mmap]


class SegmentEntry(NamedTuple):
    file: str
    file_offset: int
    bytes: int
    fd: int      # place among the descriptors of the lease, the index being 0
    offset: int  # where in the descriptor's file it begins


class TensorEntry(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]
    segment: int
    offset: int  # where in the segment it begins
    bytes: int


class Index(NamedTuple):
    model: str
    tier: str
    generation: int
    bytes: int
    segments: list[SegmentEntry]
    tensors: TensorsToRead


class Grant(NamedTuple):
    """A lease as it came; the connection is it."""
    connection: Connection
    number: int
    contents: Index
    maps: list[Optional[mmap.mmap]]  # by the place of their descriptor


def _bad(what: str) -> Error:
    return Error("bad_format", f"the lease's index: {what}")


def _entries(index: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = index.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _bad(f"'{key}' is no list of objects")
    return entries


def _segments(index: dict[str, Any]) -> list[SegmentEntry]:
    files = [(text(file["name"]), natural(file["bytes"])) for file in _entries(index, "files")]
    found = []
    for entry in _entries(index, "segments"):
        place = natural(entry["file"])
        if place >= len(files):
            raise _bad("a segment of no file")
        name, size = files[place]
        segment = SegmentEntry(name, natural(entry["file_offset"]), natural(entry["bytes"]),
                               natural(entry["fd"]), natural(entry["offset"]))
        if segment.file_offset + segment.bytes > size:
            raise _bad("a segment past its file's end")
        if segment.fd == 0:
            raise _bad("a segment without a descriptor")
        if entry["transport"] != "file-fd":
            raise Error("unavailable", "a way of handing over that this package does not know: "
                                       f"{str(entry['transport'])[:32]}")
        found.append(segment)
    return found


def tensor_entry(entry: Any, segments: list[SegmentEntry]) -> TensorEntry:
    """One of the index's tensors, checked, or Error."""
    try:
        shape = entry["shape"]
        if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
            raise _bad("'shape' is no list of a few whole numbers")
        tensor = TensorEntry(text(entry["name"]), text(entry["dtype"]),
                             tuple(map(natural, shape)), natural(entry["segment"]),
                             natural(entry["offset"]), natural(entry["bytes"]))
    except (KeyError, TypeError):
        raise _bad("a tensor that lacks something") from None
    if tensor.segment >= len(segments):
        raise _bad("a tensor in no segment")
    if tensor.offset + tensor.bytes > segments[tensor.segment].bytes:
        raise _bad("a tensor past its segment's end")
    return tensor


class TensorTable(NamedTuple):
    entries: list[Any]  # for tensor_entry()
    places: dict[str, int]  # of each by its name, the first one's


def _table(tensors: Any) -> TensorTable:
    """A tensor is checked when somebody asks for it: of tens of thousands, that would be most of the time."""
    places: dict[str, int] = {}
    try:
        for place, entry in enumerate(tensors):
            places.setdefault(entry["name"], place)
    except (KeyError, TypeError):
        raise _bad("a tensor without a name") from None
    if not isinstance(tensors, list) or not set(map(type, places)) <= {str}:
        raise _bad("a tensor without a name")
    return TensorTable(tensors, places)


class _File:
    """An index that is read as far as it is needed. Read and not mapped: what is checked stays what is used,
    whoever may write to it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise _bad("no file")
        if about.st_size > MAX_INDEX_BYTES:
            raise Error("too_large", "the lease's index")
        self.size = about.st_size
        self.data = bytearray()

    def keep(self) -> None:
        """From here on, it needs a descriptor of its own, if any."""
        self.fd = os.dup(self.fd) if len(self.data) < self.size else -1

    def close(self) -> None:
        """What was kept."""
        if self.fd >= 0:
            os.close(self.fd)

    def read_to(self, end: int) -> None:
        end = min(end, self.size)
        while len(self.data) < end:
            got = os.pread(self.fd, end - len(self.data), len(self.data))
            if not got:
                raise _bad("shorter than it was")
            self.data += got

    def find_tensors(self) -> int:
        """Where their key stands, if it does. It may be something else yet."""
        place, step = -1, FIRST_READ
        while place < 0 and len(self.data) < self.size:
            begin = max(len(self.data) - len(TENSORS_KEY) + 1, 0)
            self.read_to(len(self.data) + step)
            place = self.data.find(TENSORS_KEY, begin)
            step *= 2
        return place


def _json(data: Union[bytes, bytearray]) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise _bad("not JSON") from None
    if not isinstance(value, dict):
        raise _bad("no object")
    return value


class TensorsToRead:
    """The tensors of an index. They are nearly all of it, are not needed to attach, and come last: reading
    them is put off until somebody asks. Any thread may."""

    def __init__(self, table: Optional[TensorTable], file: Optional[_File] = None, place: int = 0) -> None:
        self._lock = threading.RLock()
        self._table = table
        self._failed: Optional[Error] = None
        self._place = place
        # One or none. Who pops it owns it, and needs no lock for that: the collector may close a lease in
        # the midst of anything.
        self._files: list[_File] = []
        if file is not None:
            file.keep()
            self._files.append(file)

    def table(self) -> TensorTable:
        """Error where they make no sense, then and from then on; ValueError once they were let go of."""
        if self._table is None:
            with self._lock:
                if self._table is None:
                    self._table = self._read()
        return self._table

    def _read(self) -> TensorTable:
        if self._failed is not None:
            raise Error(self._failed.code, self._failed.message)
        if not self._files:
            raise ValueError("the lease is closed")
        file = self._files.pop()
        try:
            table = _rest(file, self._place)
        except Error as failed:
            self._failed = failed
            file.close()
            raise
        except BaseException:  # Ctrl+C is no verdict.
            self._files.append(file)
            raise
        file.close()
        return table

    def let_go(self) -> None:
        """What was not read by now will not be."""
        while self._files:
            self._files.pop().close()

    def __del__(self) -> None:
        if hasattr(self, "_files"):
            self.let_go()


def _rest(file: _File, place: int) -> TensorTable:
    """All from the tensors' key on."""
    try:
        file.read_to(file.size)
        rest = _json(b"{" + file.data[place:])
        if not HEAD_KEYS.isdisjoint(rest):
            raise _bad("something again that its head has said")
        return _table(rest["tensors"])
    except OSError as failed:
        raise Error("io_error", f"the lease's index: {failed}") from None


def _head(file: _File, place: int) -> Optional[dict[str, Any]]:
    """What comes before the tensors, where it is all but they; else the whole has to be looked at."""
    try:
        # Whatever was found there, a key or the end of some string: this is an index whose last key is
        # "tensors", or it is not the place.
        head = _json(file.data[:place] + TENSORS_KEY + b"null}")
    except Error:
        return None
    last = list(head)[-1]
    return head if last == "tensors" and head[last] is None and HEAD_KEYS <= head.keys() else None


def read_index(fd: int) -> Index:
    """The index behind a descriptor, or Error."""
    try:
        file = _File(fd)
        place = file.find_tensors()
        head = _head(file, place) if place >= 0 else None
        table = None
        if head is None:
            # The keys are in another order: all of it, now.
            file.read_to(file.size)
            head = _json(file.data)
            table = _table(head["tensors"])
        segments = _segments(head)
        return Index(text(head["model"]), text(head["tier"]), natural(head["generation"]),
                     natural(head["bytes"]), segments,
                     TensorsToRead(table, file if table is None else None, place))
    except KeyError as missing:
        raise _bad(f"no {missing}") from None
    except OSError as failed:
        raise Error("io_error", f"the lease's index: {failed}") from None


def _map(fd: int, size: int, map_file: MapFile) -> Optional[mmap.mmap]:
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise broken("a segment that is no file")
        if size > about.st_size:
            raise broken("a segment past its end")
        # What is empty cannot be mapped, and need not be.
        return map_file(fd, size) if size > 0 else None
    except (OSError, ValueError, OverflowError) as failed:
        raise Error("io_error", f"map a segment of the lease: {failed}") from None


def _take(connection: Connection, first: dict[str, Any], fds: list[int], deadline: float,
          map_file: MapFile) -> Grant:
    """Maps each packet's descriptors and closes them before the next one comes. (What Python's mmap
    keeps of its own is one descriptor a file.)"""
    if not fds or len(fds) != first.get("fds"):
        raise broken("not as many descriptors as it says")
    index = read_index(fds[0])
    try:
        maps = _maps(connection, first, fds, index, deadline, map_file)
        return Grant(connection, natural(first.get("lease")), index, maps)
    except BaseException:
        index.tensors.let_go()
        raise


def _maps(connection: Connection, first: dict[str, Any], fds: list[int], index: Index, deadline: float,
          map_file: MapFile) -> list[Optional[mmap.mmap]]:
    if index.generation != first.get("generation"):
        raise broken("the index of another generation")
    sizes: dict[int, int] = {}
    for segment in index.segments:
        need = segment.offset + segment.bytes if segment.bytes else 0
        sizes[segment.fd] = max(sizes.get(segment.fd, 0), need)
    last = max(sizes, default=0)
    if last > len(index.segments):
        raise broken("a descriptor's place past their number")
    maps: list[Optional[mmap.mmap]] = []
    message = first
    while True:
        for fd in fds:
            if len(maps) > last:
                raise broken("more descriptors than segments")
            maps.append(_map(fd, sizes.get(len(maps), 0), map_file) if maps else None)
        close_all(fds)
        if message.get("more") is not True:
            break
        message, came = connection.receive(deadline)
        fds += came
        if message["op"] != "fds" or not fds or len(fds) != message.get("fds"):
            raise broken("descriptors were to follow")
    if len(maps) <= last:
        raise broken("fewer descriptors than segments")
    return maps


def take_grant(connection: Connection, deadline: float, map_file: MapFile) -> Grant:
    """The agent's answer to a request, or Error. `map_file(fd, bytes)` maps from the file's start."""
    packet = connection.receive(deadline)
    message, fds = packet
    try:
        if not fds:
            raise_refusal(message)
        if message["op"] != "granted":
            raise broken("neither granted nor refused")
        return _take(connection, message, fds, deadline, map_file)
    finally:
        close_all(fds)
