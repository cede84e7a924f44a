#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The clients with a real agent: libandiron by a C program and by the example of the README, the Python package, and
safetensors files that are opened by their path. Every byte is compared with the file's. Mounts are made in a
namespace of the test's own."""
import array
import gc
import os
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support"), os.path.join(HERE, "../../client/python")]
import interpreter

HAS_NUMPY = interpreter.find("numpy")

import andiron
from harness import MIB, Agent, main, make_cold, resident, until, write_gguf
from lease_wire import lease_path
from pinned import (BOOT, NOBODY, PINNED, config, open_to_all, own_namespace, pinned, sha256,
                    until_pinned)
from safetensors_file import write_safetensors


def own_socket(agent):
    """What clients look for."""
    os.environ["ANDIRON_LEASE_SOCKET"] = lease_path(agent)


def probe(build, model, *more):
    done = subprocess.run([os.path.join(build, "tests/component/client/lease_probe"),
                           os.environ["ANDIRON_LEASE_SOCKET"], model, "60000", "30000", *more],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


def leases(agent, name="m"):
    return pinned(agent, name)["leases"]


def tensors_of(seed):
    """Some megabytes, and none of it twice."""
    values = array.array("f", (seed + i % 4093 / 8 for i in range(3 * MIB // 4)))
    return {"w": ("F32", [len(values)], values.tobytes()),
            "b": ("BF16", [3, 2], os.urandom(12)), "s": ("I64", [], os.urandom(8))}


def the_library_maps_what_the_files_have(build, folder):
    store = folder / "org"
    os.makedirs(os.path.join(store, "sub"))
    tensors = {"model.safetensors": tensors_of(1), "sub/other.safetensors": tensors_of(2)}
    for name, content in tensors.items():
        write_safetensors(os.path.join(store, name), content)
    size = sum(os.path.getsize(os.path.join(store, name)) for name in tensors)
    os.makedirs(folder / "out")
    with Agent(build, folder, config(folder, ("m", store))) as agent:
        own_socket(agent)
        lines = probe(build, "m", folder / "out")  # which has it loaded
        assert lines[0].endswith(f" m pinned-ram generation 1 bytes {size}"), lines
        assert lines[-1] == "left 0 0", lines
        segments = [line.split() for line in lines if line.startswith("segment ")]
        assert sorted(name for _, name, *_ in segments) == sorted(tensors), lines
        for i, (_, name, offset, _) in enumerate(segments):
            assert offset == "0"
            assert sha256(folder / f"out/segment-{i}") == sha256(os.path.join(store, name))
        listed = [line.split() for line in lines if line.startswith("tensor ")]
        assert len(listed) == 6, lines
        for i, words in enumerate(listed):
            dtype, shape, data = tensors[words[-3]][words[1]]
            assert words[2] == dtype and words[3:-4] == list(map(str, shape)), words
            with open(folder / f"out/tensor-{i}", "rb") as file:
                assert file.read() == data, words
        until("the lease's end", lambda: leases(agent) == 0)
        # A descriptor stands for its file alone.
        lines = probe(build, "@" + os.path.join(store, "sub/other.safetensors"), folder / "out")
        assert [line for line in lines if line.startswith("segment ")] == [
            f"segment sub/other.safetensors 0 {os.path.getsize(store + '/sub/other.safetensors')}"], lines
        assert sha256(folder / "out/segment-0") == sha256(store + "/sub/other.safetensors")
        assert probe(build, "nobody")[0].startswith("error model_not_found "), "no such model"
        agent.stop()
    assert probe(build, "m")[0].startswith("error unavailable "), "no agent"


def the_example_sums_a_tensor(build, folder):
    path = folder / "m.safetensors"
    tensors = tensors_of(3)
    write_safetensors(path, tensors)
    example = os.path.join(build, "client/examples/tensor_sum")
    with Agent(build, folder, config(folder, ("m", path, PINNED, BOOT))) as agent:
        until_pinned(agent)
        environment = {**os.environ, "ANDIRON_LEASE_SOCKET": lease_path(agent)}

        def say(*arguments):
            done = subprocess.run([example, "m", *arguments], capture_output=True, text=True,
                                  env=environment, timeout=120)
            return done.returncode, done.stdout.splitlines(), done.stderr

        code, lines, _ = say()
        assert code == 0 and len(lines) == 3, lines
        assert lines[0].startswith("w F32 [786432] 3145728 bytes at "), lines
        wanted = sum(array.array("f", tensors["w"][2]))
        code, lines, _ = say("w")
        assert code == 0 and abs(float(lines[0]) - wanted) < 1e-6 * wanted, (lines, wanted)
        assert say("b")[2].startswith("'b' is of type BF16")
        assert say("none")[0] == 1
        agent.stop()


def python_maps_what_the_file_has(build, folder):
    path = folder / "m.gguf"
    size = write_gguf(path, 32 * MIB + 4)
    wanted = sha256(path)
    with Agent(build, folder, config(folder, ("m", path))) as agent:
        try:
            raise AssertionError(andiron.lease("m", socket=lease_path(agent)))
        except andiron.Error as error:
            assert error.code == "unavailable", error  # it is not there, and nobody waits
        make_cold(path)
        own_socket(agent)
        with andiron.lease("m", wait=60.0) as lease:
            (segment,) = lease.segments
            assert (segment.file, segment.file_offset, segment.bytes, lease.bytes) == (
                "m.gguf", 0, size, size)
            assert sha256_of(segment.data) == wanted
            tensor = lease.tensors["weight"]
            assert tensor.dtype == "F32" and tensor.bytes == 32 * MIB + 4
            assert tensor.data == segment.data[tensor.file_offset:]
            if HAS_NUMPY:
                assert tensor.numpy().tobytes() == tensor.data
            assert resident(path) == 0, "the source went through the page cache"
            assert leases(agent) == 1 and lease.revoked is None and not lease.ended
        until("the lease's end", lambda: leases(agent) == 0)
        with open(path, "rb") as file, andiron.lease(fd=file) as lease:
            assert lease.model == "m" and sha256_of(lease.segments[0].data) == wanted
        agent.stop()


def sha256_of(data):
    import hashlib
    return hashlib.sha256(data).hexdigest()


def draining(agent):
    return agent.get("/v1/status")["tiers"]["pinned-ram"]["draining_bytes"]


def a_revoke_reaches_the_program_and_a_view_drains(build, folder):
    path = folder / "m.gguf"
    size = write_gguf(path, 16 * MIB)
    wanted = sha256(path)
    with Agent(build, folder, config(folder, ("m", path, PINNED))) as agent:
        own_socket(agent)
        told = threading.Event()
        reasons = []

        def on_revoke(lease, revocation):
            reasons.append(revocation.reason)
            lease.close()
            told.set()

        closes = andiron.lease("m", wait=60.0, on_revoke=on_revoke)
        keeps = andiron.lease("m")
        os.makedirs(folder / "out")
        c_client = subprocess.Popen([os.path.join(build, "tests/component/client/lease_probe"),
                                     lease_path(agent), "m", "0", "30000", folder / "out", "close"],
                                    stdout=subprocess.PIPE, text=True)
        until("three leases", lambda: leases(agent) == 3)
        agent.ctl("drop", "m")
        assert told.wait(60) and reasons == ["dropped"] and closes.closed
        lines = c_client.communicate(timeout=60)[0].splitlines()
        assert lines[-2].startswith("revoke dropped ") and lines[-1] == "left 0 0", lines
        revocation = keeps.wait_revoked(60)
        assert revocation.reason == "dropped" and revocation.deadline > 0, revocation
        view = keeps.segments[0].data
        keeps.close()
        until("the leases' end", lambda: leases(agent) == 0)
        until("the view to be what is left", lambda: draining(agent) >= size)
        assert sha256_of(view) == wanted, "it is valid as long as somebody has it"
        del view
        until("it to be gone", lambda: draining(agent) == 0)
        types = agent.event_types("m")
        assert types.count("lease.granted") == types.count("lease.ended") == 3, types
        agent.stop()


def an_agent_that_is_killed_takes_nothing(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 8 * MIB)
    with Agent(build, folder, config(folder, ("m", path, PINNED, BOOT))) as agent:
        until_pinned(agent)
        own_socket(agent)
        with andiron.lease("m") as lease:
            agent.kill()
            until("the client to hear of it", lambda: lease.ended)
            assert sha256_of(lease.segments[0].data) == sha256(path) and lease.revoked is None
        try:
            raise AssertionError(andiron.lease("m"))
        except andiron.Error as error:
            assert error.code == "unavailable", error
        agent.start()
        until_pinned(agent)
        andiron.lease("m").close()
        agent.stop()


def who_may_not_read_the_file_is_told_so(build, folder):
    open_to_all(folder)
    path = folder / "m.gguf"
    write_gguf(path, MIB)
    os.chmod(path, 0o600)
    settings = config(folder, ("m", path, PINNED, BOOT)).replace(
        "[agent]", '[agent]\nlease_access = "readers"', 1)
    script = ("import sys; sys.path.insert(0, sys.argv[1]); import andiron\n"
              "try: print(andiron.lease('m').model)\n"
              "except andiron.Error as error: print(error.code)")
    with Agent(build, folder, settings) as agent:
        until_pinned(agent)
        own_socket(agent)
        # From where nobody may be barred: the sources may lie in a home.
        modules = folder / "modules"
        subprocess.run(["cp", "-r", os.path.join(HERE, "../../client/python"), modules], check=True)
        subprocess.run(["chmod", "-R", "a+rX", modules], check=True)

        def asked_by_nobody():
            done = subprocess.run(["/usr/bin/python3", "-B", "-c", script, modules],
                                  capture_output=True, text=True, cwd="/", user=NOBODY, group=NOBODY,
                                  extra_groups=[])
            assert done.returncode == 0, done
            return done.stdout.strip()

        assert asked_by_nobody() == "permission_denied"
        os.chmod(path, 0o644)
        until("the change to count", lambda: asked_by_nobody() == "m")
        agent.stop()


def a_safetensors_file_is_the_same_with_and_without(build, folder):
    if not HAS_NUMPY:
        print("needs numpy for Python: not checked")
        return
    from andiron.safetensors import _source, safe_open
    from andiron.safetensors.numpy import load_file
    _source._TIMEOUT = 60  # the machine may be busy

    path = folder / "m.safetensors"
    tensors = {name: tensor for name, tensor in tensors_of(4).items() if tensor[0] != "BF16"}
    write_safetensors(path, tensors, {"format": "np"})

    def check(leased):
        with safe_open(path, framework="np") as file:
            assert file.leased is leased
            got = {name: file.get_tensor(name).tobytes() for name in file.keys()}
        assert got == {name: data for name, (_, _, data) in tensors.items()}
        loaded = load_file(path)
        assert {name: a.tobytes() for name, a in loaded.items()} == got
        assert loaded["w"].dtype == "f4" and loaded["w"].shape == tuple(tensors["w"][1])
        return loaded

    os.environ["ANDIRON_LEASE_SOCKET"] = folder / "none"
    check(False)
    with Agent(build, folder, config(folder, ("m", path))) as agent:
        own_socket(agent)
        check(False)  # not in pinned RAM, and nobody waits
        os.environ["ANDIRON_LEASE_WAIT"] = "60"
        loaded = check(True)
        del os.environ["ANDIRON_LEASE_WAIT"]
        until("the lease of what was loaded", lambda: leases(agent) == 1)
        make_cold(path)
        check(True)
        until("two to have ended", lambda: leases(agent) == 1)
        assert resident(path) <= 16 * 4096, "only the header of the source may have been looked at"
        # Written to, they are a copy of the writer's own.
        loaded["w"][:] = 0
        check(True)
        del loaded
        gc.collect()
        until("the lease to end with the last array", lambda: leases(agent) == 0)

        # A file that was changed is read itself, until the agent has it anew.
        tensors.update({name: t for name, t in tensors_of(5).items() if t[0] != "BF16"})
        write_safetensors(folder / "new", tensors, {"format": "np"})
        os.rename(folder / "new", path)
        check_either(path, tensors, safe_open)
        until("the new bytes to be leased", lambda: safe_open(path, "np").leased)
        check(True)
        agent.stop()
    check(False)


def check_either(path, tensors, safe_open):
    """The new bytes, wherever they come from."""
    file = safe_open(path, "np")
    assert {name: file.get_tensor(name).tobytes() for name in file.keys()} == {
        name: data for name, (_, _, data) in tensors.items()}


if __name__ == "__main__":
    own_namespace()
    main([the_library_maps_what_the_files_have, the_example_sums_a_tensor,
          python_maps_what_the_file_has, a_revoke_reaches_the_program_and_a_view_drains,
          an_agent_that_is_killed_takes_nothing, who_may_not_read_the_file_is_told_so,
          a_safetensors_file_is_the_same_with_and_without])
