# SPDX-License-Identifier: MIT
"""Writes files of the safetensors format."""
import json
import os


def safetensors_bytes(tensors, metadata=None, padding=0):
    """tensors: name -> (dtype, shape, bytes), one after the other in that order."""
    header = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode() + b" " * padding
    return len(text).to_bytes(8, "little") + text + b"".join(t[2] for t in tensors.values())


def write_safetensors(path, tensors, metadata=None):
    with open(path, "wb") as file:
        file.write(safetensors_bytes(tensors, metadata))
        file.flush()
        os.fsync(file.fileno())


def every_type():
    """A tensor of each type that numpy has, a scalar, an empty one, and some that numpy lacks."""
    sizes = {"F64": 8, "F32": 4, "F16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4,
             "U16": 2, "U8": 1, "C64": 8}
    tensors = {f"t.{name}": (name, [3, 5], bytes(range(1, 1 + 15 * size)))
               for name, size in sizes.items()}
    tensors["scalar"] = ("F32", [], b"\x00\x00\x80\x3f")
    tensors["none"] = ("I32", [4, 0], b"")
    tensors["t.BOOL"] = ("BOOL", [2, 2], b"\1\0\0\1")
    tensors["t.BF16"] = ("BF16", [2], b"\x80\x3f\x00\x40")
    return tensors
