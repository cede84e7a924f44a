# SPDX-License-Identifier: MIT
"""Where a file's bytes come from: the agent's copy, or the file."""
from __future__ import annotations

import mmap
import os
import stat
import weakref
from typing import Optional, Union

from .._errors import Error
from .._lease import attach

# A load is not to wait long for an agent that is stuck: the file is there, too.
_TIMEOUT = 1.0
# Without it, a system that accounts for memory strictly would refuse a model that is larger than what is
# free, though only pages that are written to take any. Python names it from 3.13 on; this is its value on
# the machines that Andiron is for.
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


def _map_private(fd: int, size: int) -> mmap.mmap:
    """Copied on write, so that tensors may be written to as those of safetensors may."""
    return mmap.mmap(fd, size, flags=mmap.MAP_PRIVATE | _NORESERVE,
                     prot=mmap.PROT_READ | mmap.PROT_WRITE)


def _patience(wait: Optional[float]) -> float:
    if wait is not None:
        return wait
    try:
        return float(os.environ.get("ANDIRON_LEASE_WAIT") or 0)
    except ValueError:
        return 0.0


def _leased(fd: int, size: int, wait: Optional[float]) -> Optional[mmap.mmap]:
    """The agent's copy of the whole file. The lease is the mapping's: it ends with it."""
    try:
        grant = attach({"tier": "pinned-ram", "source_fd": 0}, fd, _patience(wait), _TIMEOUT, None,
                       _map_private)
    except Error:
        return None
    grant.contents.tensors.let_go()  # The file's own header says what there is.
    segments = grant.contents.segments
    if len(segments) == 1 and segments[0][1:] == (0, size, segments[0].fd, 0):
        mapped = grant.maps[segments[0].fd]
        if mapped is not None:
            weakref.finalize(mapped, grant.connection.close)
            return mapped
    grant.connection.close()
    return None


def whole_file(path: Union[str, os.PathLike[str]], wait: Optional[float]) -> tuple[memoryview, bool]:
    """A file's bytes, and whether they are the agent's copy. OSError as open() and mmap() have it."""
    # Does not wait for a writer where somebody put a pipe; to a file it means nothing.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        about = os.fstat(fd)
        if stat.S_ISREG(about.st_mode) and about.st_size == 0:
            return memoryview(b""), False
        mapped = _leased(fd, about.st_size, wait) if stat.S_ISREG(about.st_mode) else None
        if mapped is not None:
            return memoryview(mapped), True
        return memoryview(_map_private(fd, about.st_size)), False
    finally:
        os.close(fd)
