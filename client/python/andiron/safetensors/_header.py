# SPDX-License-Identifier: MIT
"""The header of a safetensors file, by the format's own rules."""
from __future__ import annotations

import json
from typing import Any, NamedTuple, Optional

from .._dtypes import BITS

# The format's own bound.
MAX_HEADER_BYTES = 100_000_000


class Entry(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    begin: int  # from the file's start
    end: int


class Header(NamedTuple):
    entries: dict[str, Entry]  # in the order of their bytes
    metadata: Optional[dict[str, str]]


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("two entries of one name")
    return found


def _numbers(value: Any) -> list[int]:
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n < 1 << 63 for n in value):
        raise ValueError("no list of whole numbers")
    return value


def _entry(name: str, value: Any) -> Entry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"tensor '{name[:128]}' has not dtype, shape and data_offsets alone")
    dtype, shape = value["dtype"], _numbers(value["shape"])
    offsets = _numbers(value["data_offsets"])
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ValueError(f"tensor '{name[:128]}' is of an unknown type")
    bits = BITS[dtype]
    for extent in shape:
        bits *= extent
        if bits >= 1 << 66:
            raise ValueError(f"tensor '{name[:128]}' has more elements than can be counted")
    if len(offsets) != 2 or (offsets[1] - offsets[0]) * 8 != bits:
        raise ValueError(f"tensor '{name[:128]}' has data_offsets that do not fit its shape and type")
    return Entry(dtype, tuple(shape), offsets[0], offsets[1])


def _metadata(value: Any) -> Optional[dict[str, str]]:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError("metadata that is not of strings")
    return value


def parse_header(data: memoryview) -> Header:
    """From the whole file's bytes. Tensors fill what follows the header, in any order, without gap or
    overlap. ValueError says what is wrong."""
    if len(data) < 8:
        raise ValueError("shorter than the length of a header")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {length} bytes")
    if length > len(data) - 8:
        raise ValueError("shorter than its header")
    text = bytes(data[8:8 + length])
    if not text.startswith(b"{"):
        raise ValueError("a header that is no JSON object")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_no_twins)
    except RecursionError:
        raise ValueError("a header that nests too deep") from None
    metadata = _metadata(header.pop("__metadata__", None))
    entries = [(name, _entry(name, value)) for name, value in header.items()]
    entries.sort(key=lambda item: (item[1].begin, item[1].end))
    start = 8 + length
    end = 0
    placed = {}
    for name, entry in entries:
        if entry.begin != end:
            raise ValueError(f"{'an overlap' if entry.begin < end else 'a gap'} before tensor '{name[:128]}'")
        end = entry.end
        placed[name] = Entry(entry.dtype, entry.shape, start + entry.begin, start + entry.end)
    if start + end != len(data):
        raise ValueError(f"{len(data)} bytes where its header says {start + end}")
    return Header(placed, metadata)
