# SPDX-License-Identifier: MIT
"""The types of elements, as GGUF and safetensors call them, and as numpy and torch do."""
from __future__ import annotations

import threading
import warnings
from typing import Any

from ._errors import Error

# What numpy has no type for is the unsigned one of its size: the bits as they are.
RAW = {"BF16": "<u2", "F8_E5M2": "u1", "F8_E4M3": "u1", "F8_E8M0": "u1", "F8_E4M3FNUZ": "u1",
       "F8_E5M2FNUZ": "u1"}
NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
         "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "C64": "<c8"}
TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
         "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32",
         "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
         "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
         "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu"}
# The bits of every type of safetensors 0.8.
BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
        "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
        "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}

_WARNINGS = threading.Lock()


def _check(view: memoryview, dtype: str, shape: tuple[int, ...]) -> None:
    bits = BITS[dtype]
    for extent in shape:
        bits *= extent
    if bits != view.nbytes * 8:
        raise Error("bad_format", f"{view.nbytes} bytes are no {dtype} of shape {list(shape)}")


def as_numpy(view: memoryview, dtype: str, shape: tuple[int, ...], numpy_type: Any = None) -> Any:
    """An array over these bytes, which stays writable or not as they are."""
    import numpy

    found = numpy_type or NUMPY.get(dtype) or RAW.get(dtype)
    if found is None:
        raise Error("unsupported", f"numpy has no type for {dtype}; its bytes are in `data`")
    _check(view, dtype, shape)
    if view.nbytes == 0:
        empty = numpy.empty(shape, found)
        empty.flags.writeable = not view.readonly
        return empty
    return numpy.frombuffer(view, found).reshape(shape)


def as_torch(view: memoryview, dtype: str, shape: tuple[int, ...]) -> Any:
    """A tensor over these bytes."""
    import torch

    found = getattr(torch, TORCH.get(dtype, "-"), None)
    if found is None:
        raise Error("unsupported", f"this torch has no type for {dtype}; its bytes are in `data`")
    _check(view, dtype, shape)
    if view.nbytes == 0:
        return torch.empty(shape, dtype=found)
    if not view.readonly:
        return torch.frombuffer(view, dtype=found).reshape(shape)
    # That it is read-only is what the caller asked for; everything else may be said.
    with _WARNINGS, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return torch.frombuffer(view, dtype=found).reshape(shape)
