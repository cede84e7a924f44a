#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tensors of torch over leased bytes, and safetensors files as tensors, with an agent and without. $1 is the
build folder."""
import gc
import os
import warnings

from clients import HANGS, TIMEOUT, andiron, main, need, shared_mappings

need("torch")
import torch

from andiron.safetensors import _source
from andiron.safetensors import load_file, safe_open
from safetensors_file import every_type, safetensors_bytes, write_safetensors
from scripted_agent import Model, ScriptedAgent

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
         "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "C64": "complex64"}


def known():
    """Those that every torch has."""
    return {name: tensor for name, tensor in every_type().items() if tensor[0] in NAMES}


def by_hand(dtype, shape, data):
    kind = getattr(torch, NAMES[dtype])
    if not data:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(bytearray(data), dtype=kind).reshape(shape)


def same(got, wanted):
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    return bytes(got.contiguous().flatten().view(torch.uint8).tolist() if got.numel() else b"") == bytes(
        wanted.contiguous().flatten().view(torch.uint8).tolist() if wanted.numel() else b"")


def leasing(content, tensors):
    start = len(content) - sum(len(data) for _, _, data in tensors.values())
    listed = []
    for name, (dtype, shape, data) in tensors.items():
        listed.append((0, name, dtype, shape, start, len(data)))
        start += len(data)

    def script(peer):
        peer.asked()
        model = Model({"m.safetensors": content}, listed)
        model.grant(peer)
        model.close()
        peer.until_gone()
    return script


def tensors_have_no_copy_and_stay_valid(folder):
    tensors = known()
    content = safetensors_bytes(tensors)
    before = shared_mappings()
    with ScriptedAgent(folder / "s", leasing(content, tensors)) as agent:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # None comes through.
            lease = andiron.lease("m", socket=agent.path, timeout=TIMEOUT)
            kept = {name: tensor.torch() for name, tensor in lease.tensors.items()}
            lease.close()
        assert shared_mappings() == before + 1
        for name, tensor in tensors.items():
            assert same(kept[name], by_hand(*tensor)), name
        kept.clear()
        gc.collect()
        assert shared_mappings() == before
    lacking = {"f": ("F6_E2M3", [4], b"abc")}
    with ScriptedAgent(folder / "s", leasing(safetensors_bytes(lacking), lacking)) as agent:
        with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
            try:
                raise AssertionError(lease.tensors["f"].torch())
            except andiron.Error as error:
                assert error.code == "unsupported", error


def check_file(path, tensors, leased):
    loaded = load_file(path, device="cpu")
    assert list(loaded) == list(tensors)
    for name, tensor in tensors.items():
        assert same(loaded[name], by_hand(*tensor)), name
    with torch.no_grad():
        loaded["t.F32"].add_(1)
    with safe_open(path, "pt", device=torch.device("cpu")) as file:
        assert file.leased is leased
        wanted = by_hand(*tensors["t.F32"])
        assert same(file.get_tensor("t.F32"), wanted), "a copy of the writer's own"
        for index in (0, slice(1, 3), (slice(None), 2), (1, 1), ...):
            got = file.get_slice("t.F32")[index]
            assert same(got, wanted[index]) and got.is_contiguous(), index
    return loaded


def files_are_the_same_with_an_agent_and_without(folder):
    tensors = known()
    path = folder / "m.safetensors"
    write_safetensors(path, tensors, {"format": "pt"})
    check_file(path, tensors, False)
    with open(path, "rb") as file:
        content = file.read()
    with ScriptedAgent(folder / "s", leasing(content, tensors)) as agent:
        os.environ["ANDIRON_LEASE_SOCKET"] = agent.path
        loaded = check_file(path, tensors, True)
        del loaded, os.environ["ANDIRON_LEASE_SOCKET"]
        gc.collect()


def as_the_package_that_it_stands_in_for(folder):
    try:
        import safetensors.torch
    except ImportError:
        print("safetensors is not here to compare with")
        return
    path = folder / "m.safetensors"
    write_safetensors(path, known(), {"format": "pt"})
    theirs, ours = safetensors.torch.load_file(path), load_file(path)
    assert set(theirs) == set(ours) and all(same(ours[name], theirs[name]) for name in theirs)
    theirs = safetensors.safe_open(path, "pt")
    for index in (0, slice(1, 3), (slice(None), 2), (1, 1), ...):
        assert same(safe_open(path, "pt").get_slice("t.I16")[index], theirs.get_slice("t.I16")[index]), index


# A machine may be busy, and the agent is to be had here.
_source._TIMEOUT = HANGS
main([tensors_have_no_copy_and_stay_valid, files_are_the_same_with_an_agent_and_without,
      as_the_package_that_it_stands_in_for])
