# SPDX-License-Identifier: MIT
"""What comes with a lease: its index, checked, and its descriptors, mapped."""
from __future__ import annotations

import json
import mmap
import os
import stat
from typing import Any, Callable, NamedTuple, Optional

from ._connection import Connection, close_all, natural, raise_refusal, text
from ._errors import Error, broken

# A tensor takes some 150 bytes there, and the agent takes no file with more than a million.
MAX_INDEX_BYTES = 256 << 20
# No tensor library goes past 64.
MAX_DIMENSIONS = 64

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
    tensors: list[Any]  # for tensor_entry()
    places: dict[str, int]  # of each tensor by its name


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


def _places(index: dict[str, Any]) -> tuple[list[Any], dict[str, int]]:
    """The tensors as they came, and where each name is first. A tensor is checked when somebody asks for it: of
    tens of thousands, that would be most of the time that a lease takes."""
    tensors = index["tensors"]
    places: dict[str, int] = {}
    try:
        for place, entry in enumerate(tensors):
            places.setdefault(entry["name"], place)
    except (KeyError, TypeError):
        raise _bad("a tensor without a name") from None
    if not isinstance(tensors, list) or not set(map(type, places)) <= {str}:
        raise _bad("a tensor without a name")
    return tensors, places


def _read_all(fd: int) -> bytes:
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode):
        raise _bad("no file")
    if about.st_size > MAX_INDEX_BYTES:
        raise Error("too_large", "the lease's index")
    # Read and not mapped: what is checked stays what is used, whoever may write to it.
    data = bytearray()
    while len(data) < about.st_size:
        got = os.pread(fd, about.st_size - len(data), len(data))
        if not got:
            raise _bad("shorter than it was")
        data += got
    return bytes(data)


def read_index(fd: int) -> Index:
    """The index behind a descriptor, or Error."""
    try:
        index = json.loads(_read_all(fd))
        if not isinstance(index, dict):
            raise _bad("no object")
        segments = _segments(index)
        return Index(text(index["model"]), text(index["tier"]), natural(index["generation"]),
                     natural(index["bytes"]), segments, *_places(index))
    except KeyError as missing:
        raise _bad(f"no {missing}") from None
    except (ValueError, RecursionError):
        raise _bad("not JSON") from None
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
    return Grant(connection, natural(first.get("lease")), index, maps)


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
