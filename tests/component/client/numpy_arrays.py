#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Arrays of numpy over leased bytes, and safetensors files as arrays, with an agent and without. $1 is the build
folder."""
import os
import struct

from clients import HANGS, TIMEOUT, andiron, main, need, shared_mappings

need("numpy")
import numpy

from andiron.safetensors import _source
from andiron.safetensors import SafetensorError, safe_open
from andiron.safetensors.numpy import load_file
from safetensors_file import every_type, safetensors_bytes, write_safetensors
from scripted_agent import Model, ScriptedAgent

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
         "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "C64": "<c8", "BOOL": "?"}


def leasing(name, content, tensors=()):
    def script(peer):
        peer.asked()
        model = Model({name: content}, [(0, *tensor) for tensor in tensors])
        model.grant(peer)
        model.close()
        peer.until_gone()
    return script


def by_hand(dtype, shape, data):
    """The array that it should be, by numpy alone."""
    return numpy.array(numpy.frombuffer(data, TYPES[dtype]) if data else [], TYPES[dtype]).reshape(shape)


def same(got, wanted):
    return got.dtype == wanted.dtype and got.shape == wanted.shape and got.tobytes() == wanted.tobytes()


def every_type_is_an_array_without_a_copy(folder):
    tensors = every_type()
    content = safetensors_bytes(tensors)
    start = len(content) - sum(len(data) for _, _, data in tensors.values())
    listed = []
    for name, (dtype, shape, data) in tensors.items():
        listed.append((name, dtype, shape, start, len(data)))
        start += len(data)
    before = shared_mappings()
    with ScriptedAgent(folder / "s", leasing("m.safetensors", content, listed)) as agent:
        with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
            for name, (dtype, shape, data) in tensors.items():
                array = lease.tensors[name].numpy()
                if dtype == "BF16":
                    assert array.dtype == "<u2" and array.tobytes() == data
                else:
                    assert same(array, by_hand(dtype, shape, data)), name
                assert not array.flags.writeable and not (data and array.flags.owndata), name
            kept = lease.tensors["t.F32"].numpy()
            array = None
        assert same(kept, by_hand(*tensors["t.F32"])), "it stays valid"
        assert shared_mappings() == before + 1
        del kept
        assert shared_mappings() == before
        with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
            # numpy takes out of a memoryview the mapping itself, which knows nothing of it.
            kept = numpy.ndarray((4,), "u1", buffer=lease.tensors["t.U8"].data)
        assert kept.tobytes() == tensors["t.U8"][2][:4]


def gguf_has_its_dimensions_the_other_way_round(folder):
    values = struct.pack("<6f", *range(6))
    listed = [("w", "F32", [3, 2], 4, 24), ("q", "Q4_0", [32], 4, 18), ("b", "F32", [3, 3], 4, 24)]
    with ScriptedAgent(folder / "s", leasing("blob", b"GGUF" + values, listed)) as agent:
        with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
            tensor = lease.tensors["w"]
            assert tensor.shape == (3, 2)
            assert tensor.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
            for name, code in (("q", "unsupported"), ("b", "bad_format")):
                try:
                    raise AssertionError(lease.tensors[name].numpy())
                except andiron.Error as error:
                    assert error.code == code, error
            assert len(lease.tensors["q"].data) == 18
            tensor = None
    with ScriptedAgent(folder / "s", leasing("x", b"none" + values, listed)) as agent:
        with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
            assert lease.tensors["w"].numpy().tolist() == [[0, 1], [2, 3], [4, 5]]


def check_file(path, tensors, leased):
    with safe_open(path, framework="np") as file:
        assert file.leased is leased
        assert file.keys() == sorted(tensors) and file.offset_keys() == list(tensors)
        assert file.metadata() == {"format": "np"}
        for name, (dtype, shape, data) in tensors.items():
            wanted = by_hand(dtype, shape, data)
            assert same(file.get_tensor(name), wanted), name
            part = file.get_slice(name)
            assert part.get_shape() == shape and part.get_dtype() == dtype
            assert same(part[...], wanted)
        wanted = by_hand(*tensors["t.F32"])
        part = file.get_slice("t.F32")
        for index in (0, slice(1, 3), (slice(None), 2), (1, 1), (..., slice(0, 2))):
            got = part[index]
            assert same(got, numpy.asarray(wanted[index])) and got.flags.c_contiguous, index
        for call in (file.get_tensor, file.get_slice):
            try:
                raise AssertionError(call("nope"))
            except SafetensorError:
                pass
    try:
        raise AssertionError(file.keys())
    except SafetensorError:
        pass
    loaded = load_file(path)
    assert set(loaded) == set(tensors)
    for name, tensor in tensors.items():
        assert same(loaded[name], by_hand(*tensor)), name
    loaded["t.I8"][0, 0] = 77
    assert same(load_file(path)["t.I8"], by_hand(*tensors["t.I8"])), "a copy of the writer's own"
    return loaded


def files_are_the_same_with_an_agent_and_without(folder):
    tensors = every_type()
    lacking = tensors.pop("t.BF16")
    path = folder / "m.safetensors"
    write_safetensors(path, tensors, {"format": "np"})
    check_file(path, tensors, False)
    with open(path, "rb") as file:
        content = file.read()
    with ScriptedAgent(folder / "s", leasing("m.safetensors", content)) as agent:
        os.environ["ANDIRON_LEASE_SOCKET"] = agent.path
        loaded = check_file(path, tensors, True)
        del loaded
        del os.environ["ANDIRON_LEASE_SOCKET"]
    write_safetensors(path, {"b": lacking})
    try:
        raise AssertionError(load_file(path))
    except TypeError as error:
        assert "bfloat16" in str(error), error


def as_the_package_that_it_stands_in_for(folder):
    try:
        import safetensors.numpy
    except ImportError:
        print("safetensors is not here to compare with")
        return
    tensors = every_type()
    del tensors["t.BF16"]
    path = folder / "m.safetensors"
    write_safetensors(path, tensors, {"format": "np"})
    theirs, ours = safetensors.numpy.load_file(path), load_file(path)
    assert set(theirs) == set(ours) and all(same(ours[name], theirs[name]) for name in theirs)
    assert all(ours[name].flags.writeable for name in ours)
    theirs, ours = safetensors.safe_open(path, "np"), safe_open(path, "np")
    for call in ("keys", "offset_keys", "metadata"):
        assert getattr(theirs, call)() == getattr(ours, call)(), call
    for index in (0, slice(1, 3), (slice(None), 2), (1, 1), ...):
        assert same(ours.get_slice("t.I16")[index], theirs.get_slice("t.I16")[index]), index
    try:
        ours.get_tensor("nope")
    except safetensors.SafetensorError as error:
        assert "nope" in str(error)


# A machine may be busy, and the agent is to be had here.
_source._TIMEOUT = HANGS
main([every_type_is_an_array_without_a_copy, gguf_has_its_dimensions_the_other_way_round,
      files_are_the_same_with_an_agent_and_without, as_the_package_that_it_stands_in_for])
