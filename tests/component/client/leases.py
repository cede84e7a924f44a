#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a lease gives, through both clients: the bytes, the request as the agent gets it, a revoke, and what is
left when it is closed. $1 is the build folder."""
import gc
import json
import os
import select
import threading

from clients import HANGS, TIMEOUT, andiron, main, open_descriptors, probe, shared_mappings, until

from scripted_agent import Model, ScriptedAgent, memfd

REVOKE = {"op": "revoke", "reason": "memory.pressure", "deadline_ms": 5000}


def contents():
    return {"a": os.urandom(5000), "sub/b": os.urandom(12345), "empty": b""}


TENSORS = [(0, "first", "F32", [2, 2], 16, 16), (1, "last", "I8", [], 12344, 1),
           (1, "none", "F16", [0, 3], 4, 0), (1, "first", "F16", [1], 0, 2)]


def granting(files, after=lambda peer: None, seen=None):
    """Grants these files, does `after`, and waits; `seen` gets the requests."""
    def script(peer):
        request = peer.asked()
        if seen is not None:
            seen.append((request, [os.dup(fd) for fd in peer.fds]))
        model = Model(files, TENSORS)
        model.grant(peer)
        model.close()
        after(peer)
        peer.until_gone()
    return script


def both_clients_see_the_bytes(folder):
    files = contents()
    os.mkdir(folder / "out")
    before = shared_mappings(), open_descriptors()
    with ScriptedAgent(folder / "s", granting(files)) as agent:
        lines = probe(agent.path, "m", folder / "out")
        with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
            assert (lease.model, lease.tier, lease.number, lease.generation, lease.bytes) == (
                "m", "pinned-ram", 7, 3, 17345), lease
            got = [(s.file, s.file_offset, s.bytes, bytes(s.data)) for s in lease.segments]
            assert got == [(name, 0, len(data), data) for name, data in files.items()]
            assert all(s.data.readonly for s in lease.segments)
            tensors = {t.name: (t.dtype, t.shape, t.file, t.file_offset, bytes(t.data))
                       for t in lease.tensors.values()}
            assert list(lease.tensors) == ["first", "last", "none"] and "x" not in lease.tensors
    assert lines[0] == "lease 7 m pinned-ram generation 3 bytes 17345", lines
    assert lines[1:4] == ["segment a 0 5000", "segment sub/b 0 12345", "segment empty 0 0"], lines
    assert lines[4:] == ["tensor first F32 2 2 of a 16 16", "tensor last I8 of sub/b 12344 1",
                         "tensor none F16 0 3 of sub/b 4 0", "tensor first F16 1 of sub/b 0 2",
                         "left 0 0"], lines
    for i, data in enumerate(files.values()):
        with open(folder / f"out/segment-{i}", "rb") as file:
            assert file.read() == data
    wanted = [files["a"][16:32], files["sub/b"][12344:], b"", files["sub/b"][:2]]
    for i, data in enumerate(wanted):
        with open(folder / f"out/tensor-{i}", "rb") as file:
            assert file.read() == data
    assert tensors == {"first": ("F32", (2, 2), "a", 16, wanted[0]),
                       "last": ("I8", (), "sub/b", 12344, wanted[1]),
                       "none": ("F16", (0, 3), "sub/b", 4, b"")}, tensors
    del lease
    assert (shared_mappings(), open_descriptors()) == before


def the_agent_is_asked_for_what_was_meant(folder):
    seen = []
    source = folder / "source"
    with open(source, "wb") as file:
        file.write(b"its bytes")
    name = 'my "model"\n\u00e9'
    with ScriptedAgent(folder / "s", granting(contents(), seen=seen)) as agent:
        probe(agent.path, name, wait=1.5)
        andiron.lease(name, socket=agent.path, wait=1.5, timeout=TIMEOUT).close()
        probe(agent.path, "@" + source)
        with open(source, "rb") as file:
            andiron.lease(fd=file, socket=agent.path, timeout=TIMEOUT).close()
            andiron.lease(fd=file.fileno(), socket=agent.path, timeout=TIMEOUT).close()
            assert file.read() == b"its bytes", "the file is the caller's"
        os.environ["ANDIRON_LEASE_SOCKET"] = agent.path
        andiron.lease("m").close()
        del os.environ["ANDIRON_LEASE_SOCKET"]
    named = {"op": "lease", "model": name, "tier": "pinned-ram", "wait_ms": 1500}
    shown = {"op": "lease", "source_fd": 0, "tier": "pinned-ram", "wait_ms": 0}
    requests = [request for request, _ in seen]
    assert requests == [named, named, shown, shown, shown,
                        {**named, "model": "m", "wait_ms": 0}], requests
    assert [len(fds) for _, fds in seen] == [0, 0, 1, 1, 1, 0]
    for _, fds in seen[2:5]:
        assert os.path.samestat(os.fstat(fds[0]), os.stat(source))
        os.close(fds[0])


def lease_of(files, folder, kept=None):
    """An agent that grants them; `kept` gets a descriptor of each index."""
    def script(peer):
        peer.asked()
        model = Model(files, TENSORS)
        # Longer than what is read of it at first.
        index = memfd(json.dumps(model.index).encode()[:-1] + b" " * (256 << 10) + b"}")
        if kept is not None:
            kept.append(os.dup(index))
        model.grant(peer, index=index)
        model.close()
        os.close(index)
        peer.until_gone()
    return ScriptedAgent(folder / "s", script)


def error_of(ask):
    """The code of the Error that asking gives, or the name of another exception."""
    try:
        raise AssertionError(ask())
    except andiron.Error as error:
        return error.code
    except ValueError as error:
        return type(error).__name__


def tensors_are_read_when_asked_for(folder):
    files = contents()
    indexes = []
    before = open_descriptors()
    with lease_of(files, folder, indexes) as agent:
        def take():
            lease = andiron.lease("m", socket=agent.path, timeout=TIMEOUT)
            return lease, indexes.pop()

        # What comes after the head is changed meanwhile: seen, and no harm to the rest.
        lease, index = take()
        os.truncate(index, os.fstat(index).st_size - 20)
        assert error_of(lambda: len(lease.tensors)) == "bad_format"
        assert error_of(lambda: lease.tensors["first"]) == "bad_format", "it stays"
        assert bytes(lease.segments[0].data) == files["a"]
        os.close(index)
        lease.close()

        # After it was read, nobody looks there.
        lease, index = take()
        assert len(lease.tensors) == 3
        os.truncate(index, 0)
        os.close(index)
        assert bytes(lease.tensors["last"].data) == files["sub/b"][12344:]
        tensors = lease.tensors
        lease.close()
        assert tensors["last"].shape == () and list(tensors) == ["first", "last", "none"]

        # And not after the end.
        lease, index = take()
        os.close(index)
        tensors = lease.tensors
        lease.close()
        for ask in (lambda: len(tensors), lambda: list(tensors), lambda: tensors["first"]):
            assert error_of(ask) == "ValueError"
        lease, index = take()
        os.close(index)
        del lease, tensors, ask
        gc.collect()
        until(lambda: open_descriptors() <= before + 1)  # the agent's listener
    assert open_descriptors() == before


def threads_that_ask_at_once_see_the_same(folder):
    with lease_of(contents(), folder) as agent:
        for _ in range(20):
            seen = []
            together = threading.Barrier(4)
            with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
                def ask():
                    together.wait(HANGS)
                    seen.append(list(lease.tensors))
                threads = [threading.Thread(target=ask) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            assert seen == [["first", "last", "none"]] * 4, seen


def a_revoke_is_told_of(folder):
    os.mkdir(folder / "out")

    def revoke(peer):
        peer.send(REVOKE)

    def revoke_and_go(peer):
        peer.send(REVOKE)
        peer.until_gone = lambda: None

    with ScriptedAgent(folder / "s", granting(contents(), revoke_and_go)) as agent:
        lines = probe(agent.path, "m", folder / "out", "follow")
        assert lines[-3:] == ["revoke memory.pressure 5000", "over unavailable", "left 0 0"], lines
        with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
            assert lease.wait_revoked(HANGS)
            until(lambda: lease.ended)

    with ScriptedAgent(folder / "s", granting(contents(), revoke)) as agent:
        lines = probe(agent.path, "m", folder / "out", "close")
        assert lines[-2:] == ["revoke memory.pressure 5000", "left 0 0"], lines

        with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
            revocation = lease.wait_revoked(HANGS)
            assert revocation == ("memory.pressure", 5.0) and lease.revoked is revocation
            assert len(bytes(lease.segments[0].data)) == 5000, "nothing is taken away"

        told = []
        done = threading.Event()

        def on_revoke(revoked, revocation):
            revoked.close()
            told.append((revoked.number, *revocation))
            done.set()

        lease = andiron.lease("m", socket=agent.path, timeout=TIMEOUT, on_revoke=on_revoke)
        assert done.wait(HANGS) and told == [(7, "memory.pressure", 5.0)] and lease.closed


def the_agents_end_is_told_of_and_takes_nothing(folder):
    os.mkdir(folder / "out")
    files = contents()
    for name, ending in (("hangs up", lambda peer: peer.connection.close()),
                         ("garbage", lambda peer: peer.send(b"garbage")),
                         ("descriptors", lambda peer: peer.send(REVOKE, [0]))):
        def ends(peer):
            ending(peer)
            peer.until_gone = lambda: None

        before = open_descriptors()
        with ScriptedAgent(folder / "s", granting(files, ends)) as agent:
            lines = probe(agent.path, "m", folder / "out", "follow")
            code = "unavailable" if name == "hangs up" else "bad_format"
            assert lines[-2:] == [f"over {code}", "left 0 0"], (name, lines)
            with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
                select.select([lease], [], [], HANGS)
                assert lease.ended and lease.revoked is None, name
                assert bytes(lease.segments[0].data) == files["a"]
                try:
                    raise AssertionError(lease.wait_revoked(HANGS))
                except andiron.Error as error:
                    assert error.code == "unavailable", error
            told = andiron.lease("m", socket=agent.path, timeout=TIMEOUT, on_revoke=lambda *_: None)
            until(lambda: told.ended)
            told.close()
        until(lambda: open_descriptors() == before)  # the thread's goes when the thread does


def a_flood_of_revokes_keeps_nobody(folder):
    def flood(peer):
        while True:
            peer.send(REVOKE)

    os.mkdir(folder / "out")
    with ScriptedAgent(folder / "s", granting(contents(), flood)) as agent:
        lines = probe(agent.path, "m", folder / "out", "close")
        assert lines[-2:] == ["revoke memory.pressure 5000", "left 0 0"], lines
        with andiron.lease("m", socket=agent.path, timeout=TIMEOUT) as lease:
            assert lease.wait_revoked(HANGS) and lease.revoked


def what_is_kept_after_the_end_stays_valid(folder):
    files = contents()
    before = shared_mappings()
    with ScriptedAgent(folder / "s", granting(files)) as agent:
        lease = andiron.lease("m", socket=agent.path, timeout=TIMEOUT)
        segment, tensor = lease.segments[1], lease.tensors["first"]
        kept = segment.data[100:200]
        assert shared_mappings() == before + 2
        lease.close()
        lease.close()
        assert bytes(kept) == files["sub/b"][100:200]
        assert shared_mappings() == before + 1, "only what somebody has a view of is left"
        for gone in (segment, tensor):
            try:
                raise AssertionError(gone.data)
            except ValueError:
                pass
        del kept, gone
        gc.collect()
        assert shared_mappings() == before, "it goes with the last view"


def a_lease_that_nobody_has_any_longer_ends(folder):
    gone = threading.Semaphore(0)

    def script(peer):
        granting(contents())(peer)
        gone.release()

    for on_revoke in (None, lambda *_: None):
        with ScriptedAgent(folder / "s", script) as agent:
            lease = andiron.lease("m", socket=agent.path, timeout=TIMEOUT, on_revoke=on_revoke)
            assert lease.revoked is None
            del lease
            gc.collect()
            assert gone.acquire(timeout=HANGS), "the connection is still there"


def arguments_are_checked(folder):
    for arguments in ({}, {"model": "m", "fd": 0}, {"model": "m", "wait": -1},
                      {"model": "m", "wait": float("nan")}, {"model": "m", "timeout": 0},
                      {"model": "m", "socket": "/x\0y"}):
        try:
            raise AssertionError(andiron.lease(**arguments))
        except andiron.Error as error:
            assert error.code == "bad_request", (arguments, error)


main([both_clients_see_the_bytes, the_agent_is_asked_for_what_was_meant,
      tensors_are_read_when_asked_for, threads_that_ask_at_once_see_the_same, a_revoke_is_told_of,
      the_agents_end_is_told_of_and_takes_nothing, a_flood_of_revokes_keeps_nobody,
      what_is_kept_after_the_end_stays_valid, a_lease_that_nobody_has_any_longer_ends,
      arguments_are_checked])
