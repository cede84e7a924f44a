#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The header of a safetensors file, good and bad; and a file that cannot be leased is opened all the same, to
the same bytes. Needs no numpy and no torch. $1 is the build folder."""
import os
import random

from clients import HANGS, SHORT, main, open_descriptors

from andiron.safetensors import SafetensorError, safe_open
from andiron.safetensors._header import MAX_HEADER_BYTES, parse_header
from andiron.safetensors import _source
from andiron.safetensors._source import whole_file
from safetensors_file import every_type, safetensors_bytes
from scripted_agent import Model, ScriptedAgent

DATA = bytes(range(16))


def file_of(header, data=DATA):
    text = header.encode() if isinstance(header, str) else header
    return len(text).to_bytes(8, "little") + text + data


def one(**fields):
    import json
    return json.dumps({"t": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16], **fields}})


BAD = {
    "nothing": b"", "too little": b"\1\0\0\0\0\0\0",
    "shorter than its header": (100).to_bytes(8, "little") + b"{}",
    "a header of all bytes there are": b"\xff" * 8 + b"{}",
    "a header past the bound": (MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b"{}",
    "no JSON": file_of("{nonsense"), "a list": file_of("[]"), "no UTF-8": file_of(b'{"\xff":1}'),
    "nested deep": file_of('{"a":' * 100000), "blanks before it": file_of(" " + one()),
    "an entry that is a number": file_of('{"t":1}'),
    "an unknown type": file_of(one(dtype="F128")), "a type that is a number": file_of(one(dtype=4)),
    "no type": file_of('{"t":{"shape":[4],"data_offsets":[0,16]}}'),
    "another field": file_of(one(more=1)), "a shape that is a number": file_of(one(shape=4)),
    "a shape with a fraction": file_of(one(shape=[2, 2.0])), "a shape of truths": file_of(one(shape=[True, 4])),
    "a negative shape": file_of(one(shape=[-2, -2])), "a shape that does not fit": file_of(one(shape=[2, 3])),
    "a shape that overflows": file_of(one(shape=[1 << 62, 1 << 62, 0])),
    "one offset": file_of(one(data_offsets=[0])), "offsets backwards": file_of(one(data_offsets=[16, 0])),
    "offsets past the end": file_of(one(shape=[5], data_offsets=[0, 20])),
    "a gap": file_of(one(shape=[3], data_offsets=[4, 16])),
    "bytes after the last": file_of(one(), DATA + b"x"),
    "bytes and no tensor": file_of("{}"),
    "an overlap": file_of('{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]},'
                          '"b":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}}'),
    "one name twice": file_of('{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},'
                              '"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}}'),
    "half a byte": file_of('{"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}}', b"x"),
    "metadata of numbers": file_of('{"__metadata__":{"a":1}}', b""),
    "metadata that is a list": file_of('{"__metadata__":[]}', b""),
}


def bad_headers_are_refused(folder):
    for name, content in BAD.items():
        try:
            raise AssertionError((name, parse_header(memoryview(content))))
        except ValueError:
            pass
        with open(folder / "f", "wb") as file:
            file.write(content)
        before = open_descriptors()
        try:
            raise AssertionError((name, safe_open(folder / "f", "np")))
        except SafetensorError:
            pass
        assert open_descriptors() == before, name
    print(f"{len(BAD)} bad headers")


def good_headers_are_read(_):
    tensors = every_type()
    content = safetensors_bytes(tensors, {"format": "pt"}, padding=5)
    header = parse_header(memoryview(content))
    assert header.metadata == {"format": "pt"} and list(header.entries) == list(tensors)
    for name, (dtype, shape, data) in tensors.items():
        entry = header.entries[name]
        assert (entry.dtype, list(entry.shape)) == (dtype, shape), name
        assert content[entry.begin:entry.end] == data, name
    assert parse_header(memoryview(file_of("{}", b""))) == ({}, None)
    # F4 has two elements a byte.
    header = file_of('{"a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}}', b"abc")
    assert parse_header(memoryview(header)).entries["a"].shape == (2, 3)


def no_header_makes_it_raise_anything_else(_):
    """Good ones with a few bytes changed, a fixed sequence of them."""
    chance = random.Random(7)
    good = safetensors_bytes(every_type(), {"a": "b"})
    read = 0
    for _ in range(5000):
        content = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content) if chance.random() < 0.5 else 8)] = chance.randrange(256)
        try:
            header = parse_header(memoryview(content))
        except ValueError:
            continue
        read += 1
        assert all(0 <= e.begin <= e.end <= len(content) for e in header.entries.values())
    assert read > 0, "some changes are to the data alone"


def a_file_is_opened_whatever_the_agent_does(folder):
    content = safetensors_bytes({"t": ("U8", [100000], os.urandom(100000))})
    path = folder / "m.safetensors"
    with open(path, "wb") as file:
        file.write(content)

    def leases(peer, change=lambda model: None, **how):
        peer.asked()
        model = Model({"m.safetensors": content})
        change(model)
        model.grant(peer, **how)
        model.close()
        peer.until_gone()

    scripts = {
        "a lease": (True, leases),
        "a refusal": (False, lambda peer: peer.asked() and peer.send(
            {"op": "refused", "code": "stale", "message": "it changed"})),
        "a hang-up": (False, lambda peer: None),
        "silence": (False, lambda peer: peer.until_gone()),
        "garbage": (False, lambda peer: peer.send(b"?")),
        "half of the file": (False, lambda peer: leases(
            peer, lambda m: m.index["segments"][0].update(bytes=50000))),
        "another part of it": (False, lambda peer: leases(
            peer, lambda m: m.index["segments"][0].update(bytes=50000, file_offset=50000))),
        "a bad index": (False, lambda peer: leases(peer, index=b"{}")),
    }
    for name, (leased, script) in scripts.items():
        before = open_descriptors()
        _source._TIMEOUT = SHORT if name == "silence" else HANGS
        with ScriptedAgent(folder / "s", script) as agent:
            os.environ["ANDIRON_LEASE_SOCKET"] = agent.path
            data, from_agent = whole_file(path, None)
            assert from_agent is leased, name
            assert data == content, name
            # Written to, it is a copy of the writer's own.
            data[-1] ^= 1
            del data
        assert open_descriptors() == before, name
        with open(path, "rb") as file:
            assert file.read() == content, name
    data, from_agent = whole_file(path, 0.5)
    assert not from_agent and data == content, "no agent at all"


def what_cannot_be_opened_is_an_oserror(folder):
    os.mkfifo(folder / "pipe")
    for path, error in ((folder / "none", FileNotFoundError), (folder / "pipe", OSError), ("/", OSError),
                        ("/dev/zero", OSError)):
        try:
            raise AssertionError(safe_open(path, "np"))
        except error:
            pass
    open(folder / "f", "w").close()
    try:
        raise AssertionError(safe_open(folder / "f", "tf"))
    except SafetensorError as failed:
        assert "tf is invalid" in str(failed)


main([bad_headers_are_refused, good_headers_are_read, no_header_makes_it_raise_anything_else,
      a_file_is_opened_whatever_the_agent_does, what_cannot_be_opened_is_an_oserror])
