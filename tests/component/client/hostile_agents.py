#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whatever is at the other end of the socket, both clients say what is wrong with it by a code, in time, and
leave no descriptor and no mapping behind. $1 is the build folder."""
import json
import os
import socket

from clients import SHORT, TIMEOUT, c_code, main, open_descriptors, python_code

from scripted_agent import HELLO, Model, ScriptedAgent, memfd

HUGE = (1 << 64) - 1


def says(*packets):
    """Sends these in place of a hello, and waits."""
    def script(peer):
        for packet in packets:
            peer.send(packet)
        peer.until_gone()
    return script


def answers(packet, fds=0):
    """Sends this for an answer, with so many descriptors, and waits."""
    def script(peer):
        peer.asked()
        files = [memfd(b"{}") for _ in range(fds)]
        peer.send(packet, files)
        for fd in files:
            os.close(fd)
        peer.until_gone()
    return script


def grants(change=None, **how):
    """Grants three files of 5000 bytes, once `change(model)` has made something worse."""
    def script(peer):
        model = Model({name: os.urandom(5000) for name in ("a", "b", "c")},
                      [(0, "t", "F32", [2, 2], 16, 16), (2, "u", "I8", [], 4999, 1)])
        settings = dict(how)
        if change is not None:
            settings.update(change(model) or {})
        peer.asked()
        model.grant(peer, **settings)
        model.close()
        if isinstance(settings.get("index"), int):
            os.close(settings["index"])
        peer.until_gone()
    return script


def segment(**changes):
    return grants(lambda model: model.index["segments"][1].update(changes))


def tensor(**changes):
    return grants(lambda model: model.index["tensors"][0].update(changes))


def text(change):
    """`change(the index's text)` in place of it."""
    return grants(lambda model: {"index": change(json.dumps(model.index).encode())})


def again(key):
    """Something that the head has said, said otherwise after the tensors."""
    return text(lambda index: index[:-1] + b', "%s": []}' % key)


def in_order(*keys, first=()):
    """These keys of the index first, or last."""
    def change(model):
        found = dict(model.index)
        for key in keys:
            model.index[key] = model.index.pop(key)
        if first:
            model.index = {**{key: found[key] for key in first}, **found}
    return grants(change)


def many_tensors(change=None):
    """More than what is read with the head, and more segments than the first read has."""
    def both(model):
        many_files(model)
        model.index["files"] *= 20
        model.index["tensors"] = [
            {"name": f"blk.{i}", "dtype": "F16", "shape": [i, 1], "segment": 149, "offset": i, "bytes": 2}
            for i in range(3000)]
        if change is not None:
            change(model)
    return grants(both)


def without(key):
    return grants(lambda model: model.index.pop(key) and None)


def other_segment(fd):
    """In place of a segment's file."""
    def change(model):
        os.close(model.fds[1])
        model.fds[1] = fd()
    return grants(change)


def pipe():
    read, write = os.pipe()
    os.close(write)
    return read


def sparse(size):
    fd = memfd(b"")
    os.truncate(fd, size)
    return fd


def many_files(model):
    """More than one packet has room for, one of them empty."""
    files = {str(i): bytes([i]) * (i * 37) for i in range(150)}
    model.close()
    model.__init__(files)


def one_fd_for_all(model):
    """Segments that begin anywhere in one file."""
    for fd in model.fds:
        os.close(fd)
    model.fds = [memfd(os.urandom(20000))]
    for i, entry in enumerate(model.index["segments"]):
        entry.update(fd=1, offset=4097 * i)


def then(script, ending):
    """What a script would do, with another end than silence."""
    def both(peer):
        peer.until_gone = lambda: ending(peer)
        script(peer)
    return both


def more_to_come(model):
    return {"more": True}


def hang_up(peer):
    pass


def a_wrong_packet(message, fds=1):
    def ending(peer):
        files = [memfd(b"x") for _ in range(fds)]
        peer.send(message, files)
        for fd in files:
            os.close(fd)
        while peer.connection.recv(1 << 17):
            pass
    return ending


REFUSED = {"op": "refused", "code": "no_budget", "message": "16 GiB are wanted"}
SCRIPTS = {
    "nothing is said": ("timeout", says()),
    "hangs up at once": ("unavailable", hang_up),
    "garbage": ("bad_format", says(b"\xff\x00 garbage")),
    "a list": ("bad_format", says([HELLO])),
    "nested deep": ("bad_format", says(b"[" * 60000)),
    "objects nested deep": ("bad_format", says(b'{"op":' * 10000)),
    "no op": ("bad_format", says({"protocol": 1})),
    "an op that is a number": ("bad_format", says({"op": 1, "protocol": 1})),
    "another op for a hello": ("bad_format", says({"op": "granted", "protocol": 1})),
    "a refusal for a hello": ("no_budget", says(REFUSED)),
    "an odd refusal for a hello": ("bad_format", says({"op": "refused", "code": 3})),
    "another protocol": ("unavailable", says({**HELLO, "protocol": 2})),
    "no protocol": ("unavailable", says({"op": "hello"})),
    "too long a hello": ("bad_format", says(json.dumps(HELLO).encode() + b" " * 66000)),
    "a hello twice": ("bad_format", says(HELLO, HELLO)),
    "no answer": ("timeout", says(HELLO)),
    "hangs up when asked": ("unavailable", lambda peer: peer.asked()),
    "a refusal": ("no_budget", answers(REFUSED)),
    "a refusal of a later version": ("moon_phase", answers({**REFUSED, "code": "moon_phase"})),
    "a refusal without a code": ("bad_format", answers({"op": "refused"})),
    "a refusal with descriptors": ("bad_format", answers(REFUSED, fds=3)),
    "an answer that is none": ("bad_format", answers({"op": "perhaps"})),
    "garbage for an answer": ("bad_format", answers(b"\x80")),
    "granted without descriptors": ("bad_format", answers({"op": "granted", "fds": 0})),
    "fewer descriptors than said": ("bad_format", answers({"op": "granted", "fds": 2}, fds=1)),
    "more descriptors than said": ("bad_format", answers({"op": "granted", "fds": 1}, fds=2)),
    "as many descriptors as go": ("bad_format", answers({"op": "granted", "fds": 253}, fds=253)),

    "a good one": ("granted", grants()),
    "one with 150 files": ("granted", grants(many_files)),
    "150 files, one a packet": ("granted", grants(many_files, per_packet=1)),
    "segments that share a file": ("granted", grants(one_fd_for_all)),
    "tensors first": ("granted", in_order(first=["tensors"])),
    "tensors in the middle": ("granted", in_order("segments", "files")),
    "files last": ("granted", in_order("files")),
    "the generation last": ("granted", in_order("generation")),
    "something unknown last": ("granted", in_order("later")),
    "tensors last": ("granted", in_order("tensors")),
    "many tensors": ("granted", many_tensors()),
    "spaces before a colon": ("granted", text(lambda t: t.replace(b'"tensors":', b'"tensors"  :'))),
    "an escaped key": ("granted", text(lambda t: t.replace(b'"tensors"', b'"tensor\\u0073"'))),
    "a key that only looks like it": ("granted", text(
        lambda t: t.replace(b'"tensors":', b'"y\\"tensors": [[]], "tensors":'))),
    "a key that is within another": ("granted", text(
        lambda t: t.replace(b'"tensors":', b'"x": {"tensors": 3}, "tensors":'))),
    "files that are called so": ("granted", grants(
        lambda m: m.index["files"][1].update({"name": '"tensors":', "tensors": 5}))),
    "no tensors at all": ("granted", grants(lambda m: m.index.update(tensors=[]))),
    "nothing at all": ("granted", grants(lambda m: m.close() or m.__init__({}))),

    "an index that is a pipe": ("bad_format", grants(lambda m: {"index": pipe()})),
    "an empty index": ("bad_format", grants(lambda m: {"index": b""})),
    "an index of garbage": ("bad_format", grants(lambda m: {"index": b"{\"model\":\"m\"," * 9})),
    "an index of 300 MiB": ("too_large", grants(lambda m: {"index": sparse(300 << 20)})),
    "an index nested deep": ("bad_format", grants(lambda m: {"index": b"[" * 1000000})),
    "an index that is a list": ("bad_format", grants(lambda m: {"index": b"[]"})),
    "another generation": ("bad_format", grants(lambda m: m.index.update(generation=4))),
    "a generation that is a word": ("bad_format", grants(lambda m: m.index.update(generation="3"))),
    "files that are a number": ("bad_format", grants(lambda m: m.index.update(files=3))),
    "segments that are numbers": ("bad_format", grants(lambda m: m.index.update(segments=[3]))),
    "no files": ("bad_format", without("files")),

    "a segment of no file": ("bad_format", segment(file=3)),
    "a segment of a negative file": ("bad_format", segment(file=-1)),
    "a segment past its fd's end": ("bad_format", segment(offset=1)),
    "an offset at the end of all numbers": ("bad_format", segment(offset=HUGE)),
    "an offset where a sum overflows": ("bad_format", segment(offset=(1 << 63) - 1)),
    "a file_offset where a sum overflows": ("bad_format", segment(file_offset=HUGE - 4000)),
    "a segment past its file's end": ("bad_format", segment(file_offset=1)),
    "a segment that is longer than its file": ("bad_format", segment(bytes=1 << 40)),
    "the index as a segment": ("bad_format", segment(fd=0)),
    "a descriptor that is not there": ("bad_format", segment(fd=4)),
    "a descriptor far from there": ("bad_format", segment(fd=1 << 40)),
    "a segment by another way": ("unavailable", segment(transport="vmm-fd")),
    "a size with a fraction": ("bad_format", segment(bytes=4.5)),
    "a tensor in no segment": ("tensors bad_format", tensor(segment=3)),
    "a tensor past its segment": ("tensors bad_format", tensor(offset=4985)),
    "a tensor where a sum overflows": ("tensors bad_format", tensor(offset=HUGE - 8)),
    "a tensor of all bytes there are": ("tensors bad_format", tensor(bytes=(1 << 63) - 1)),
    "a tensor without end of dimensions": ("tensors bad_format", tensor(shape=[1] * 1000)),
    "a shape of shapes": ("tensors bad_format", tensor(shape=[[1]])),
    "a name that is a number": ("tensors bad_format", tensor(name=5)),
    # Python looks at a tensor when it is asked for, also where all had to be parsed.
    "tensors first, and bad": (("bad_format", "tensors bad_format"), grants(lambda m: m.index["tensors"][0].update(segment=3) or
                                                   setattr(m, "index", dict(reversed(m.index.items()))))),
    "the last of many tensors past its segment": ("tensors bad_format", many_tensors(
        lambda m: m.index["tensors"][-1].update(offset=6000))),
    "tensors that are a number": ("tensors bad_format", grants(lambda m: m.index.update(tensors=3))),
    "tensors that are a string": ("tensors bad_format", grants(lambda m: m.index.update(tensors="t"))),
    "tensors that are an object": ("tensors bad_format", grants(lambda m: m.index.update(tensors={"t": {}}))),
    "tensors that are numbers": ("tensors bad_format", grants(lambda m: m.index.update(tensors=[3]))),
    "tensors that end too early": ("tensors bad_format", text(lambda t: t[:-9])),
    "tensors that do not begin": ("tensors bad_format", text(
        lambda t: t[:t.index(b'"tensors":') + 10])),
    "garbage in the midst of tensors": ("tensors bad_format", text(
        lambda t: t.replace(b'"dtype"', b"\xff\x00"))),
    "tensors nested deep": ("tensors bad_format", text(
        lambda t: t[:t.index(b'"tensors":') + 10] + b"[" * 1000000)),
    "something after the end": ("tensors bad_format", text(lambda t: t + b"{}")),
    "segments again after the tensors": ("tensors bad_format", again(b"segments")),
    "files again after the tensors": ("tensors bad_format", again(b"files")),
    "a segment past its file's end, and bad tensors": ("bad_format", grants(
        lambda m: m.index["segments"][1].update(file_offset=1) or m.index.update(tensors=3))),
    "a segment that is a pipe": ("bad_format", other_segment(pipe)),
    "a segment that is a folder": ("bad_format",
                                   other_segment(lambda: os.open("/", os.O_RDONLY))),
    "a segment that cannot be mapped": ("bad_format",
                                        other_segment(lambda: os.open("/proc/self/status", os.O_RDONLY))),
    "a segment that is cut short": ("bad_format", other_segment(lambda: memfd(b"x" * 4999))),
    "a descriptor too many": ("bad_format",
                              grants(lambda m: m.fds.append(memfd(b"x")))),

    "a descriptor too few": ("bad_format", grants(lambda m: os.close(m.fds.pop()))),

    "more that never comes": ("timeout", grants(more_to_come)),
    "more, and a hang-up": ("unavailable", then(grants(more_to_come), hang_up)),
    "more that is too much": ("bad_format", then(grants(more_to_come), a_wrong_packet(
        {"op": "fds", "fds": 1, "more": False}))),
    "more that is miscounted": ("bad_format", then(grants(more_to_come), a_wrong_packet(
        {"op": "fds", "fds": 2, "more": False}))),
    "more that is nothing": ("bad_format", then(grants(more_to_come), a_wrong_packet(
        {"op": "fds", "fds": 0, "more": True}, fds=0))),
    "a revoke before all is there": ("bad_format", then(grants(more_to_come), a_wrong_packet(
        {"op": "revoke", "reason": "x", "deadline_ms": 1}, fds=0))),
}


def every_script_ends_in_its_code(folder):
    bad = []
    for i, (name, (code, script)) in enumerate(SCRIPTS.items()):
        before = open_descriptors()
        path = folder / str(i)
        with ScriptedAgent(path, script):
            timeout = SHORT if code == "timeout" else TIMEOUT
            got = (c_code(path, timeout), python_code(path, timeout))
        wanted = code if isinstance(code, tuple) else (code, code)
        if got != wanted:
            bad.append(f"{name}: {code} is wanted, C and Python give {got}")
        if open_descriptors() != before:
            bad.append(f"{name}: {open_descriptors() - before} descriptors are left")
    print(f"{len(SCRIPTS)} scripts")
    assert not bad, "\n".join(bad)


def who_is_not_there_is_unavailable(folder):
    for path in (folder / "none", "/proc/self/status/none"):
        assert (c_code(path), python_code(path)) == ("unavailable",) * 2, path
    with ScriptedAgent(folder / "dead", hang_up) as agent:
        os.rename(agent.path, folder / "left")
        open(agent.path, "w").close()
    assert (c_code(folder / "left"), python_code(folder / "left")) == ("unavailable",) * 2
    for kind in (socket.SOCK_STREAM,):
        with ScriptedAgent(folder / "stream", hang_up, kind) as agent:
            assert (c_code(agent.path), python_code(agent.path)) == ("unavailable",) * 2
    long = folder / ("p" * 120)
    assert (c_code(long), python_code(long)) == ("bad_request",) * 2


def who_does_not_accept_is_waited_for_only_so_long(folder):
    """A listener whose backlog is full has connect() block."""
    path = folder / "busy"
    waiting = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(0)
        while True:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            waiting.append(client)
            if client.connect_ex(path) != 0:
                break
        assert (c_code(path, SHORT), python_code(path, SHORT)) == ("timeout",) * 2
        for client in waiting:
            client.close()


main([every_script_ends_in_its_code, who_is_not_there_is_unavailable,
      who_does_not_accept_is_waited_for_only_so_long])
