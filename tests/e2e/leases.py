#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Leases as clients meet them, word by word: what is granted and to whom, what ends them, and that
nothing of one is left behind. Mounts are made in a namespace of the test's own."""
import errno
import fcntl
import hashlib
import mmap
import os
import random
import signal
import struct

from harness import MIB, Agent, confined, main, make_cold, resident, until, write_gguf
from lease_wire import Connection, Refused, lease_path, until_granted
from pinned import (BOOT, NOBODY, PINNED, config, open_to_all, own_namespace, pinned, sha256,
                    until_pinned)

NOT_AN_ID = 0xffffffff
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def for_everybody(text):
    return text.replace("[agent]", '[agent]\nlease_access = "readers"', 1)


def refused(code, ask):
    try:
        ask()
    except Refused as refusal:
        assert refusal.code == code, refusal
        return refusal
    raise AssertionError(f"granted, where {code} was due")


def fails_with(error, call):
    try:
        call()
    except OSError as problem:
        assert problem.errno == error, problem
        return
    raise AssertionError("it worked")


def lease_bytes_equal(lease, path, place=0):
    with lease.segment(place) as mapping:
        return hashlib.sha256(mapping).hexdigest() == sha256(path)


def a_lease_is_the_copy_and_ends_with_its_connection(build, folder):
    open_to_all(folder)
    path = folder / "m.gguf"
    size = write_gguf(path, 32 * MIB + 4)
    with Agent(build, folder, config(folder, ("m", path))) as agent:
        with Connection(lease_path(agent)) as client:
            assert client.hello["protocol"] == 1 and len(client.hello["nonce"]) == 32, client.hello
            refused("unavailable", lambda: client.lease("m"))  # it is not there, and nobody waits
            assert agent.model("m")["tiers"]["pinned-ram"]["resident_bytes"] == 0
            make_cold(path)
            lease = client.lease("m", wait_ms=60000)
            assert lease.answer["bytes"] == size and lease.answer["model"] == "m", lease.answer
            assert resident(path) == 0, "the source was read through the page cache"
            assert lease_bytes_equal(lease, path)
            index = lease.index
            assert index["bytes"] == size and index["files"][0]["identity"]["size"] == size, index
            (tensor,) = index["tensors"]
            assert tensor["name"] == "weight" and tensor["dtype"] == "F32", tensor
            assert tensor["offset"] + tensor["bytes"] == size, tensor
            assert pinned(agent)["leases"] == 1, pinned(agent)
            assert "one client has a lease on it" in agent.ctl("explain", "m").stdout

            # Nothing that was handed over can be changed, by root and the owner included.
            (memfd, copy) = lease.fds
            assert fcntl.fcntl(memfd, fcntl.F_GET_SEALS) == SEALS
            fails_with(errno.EPERM, lambda: os.truncate(f"/proc/self/fd/{memfd}", 0))
            for fd in (memfd, copy):
                assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
            fails_with(errno.EROFS, lambda: os.open(f"/proc/self/fd/{copy}", os.O_RDWR))
            fails_with(errno.EROFS, lambda: os.fchmod(copy, 0o666))
            fails_with(errno.EROFS, lambda: os.fchown(copy, NOBODY, NOBODY))
            fails_with(errno.EINVAL, lambda: os.ftruncate(copy, 0))
            fails_with(errno.EACCES, lambda: mmap.mmap(copy, size, mmap.MAP_SHARED,
                                                       mmap.PROT_READ | mmap.PROT_WRITE))
            # Nobody shares an offset.
            with Connection(lease_path(agent)) as other:
                another = other.lease("m")
                os.lseek(copy, 17, os.SEEK_SET)
                assert os.lseek(another.fds[1], 0, os.SEEK_CUR) == 0
                assert another.answer["lease"] != lease.answer["lease"]
                another.close()
            until("the other lease's end", lambda: pinned(agent)["leases"] == 1)
            refused("bad_request", lambda: client.lease("m"))  # one lease a connection
            assert pinned(agent)["leases"] == 1
            lease.close()
        until("the lease's end", lambda: pinned(agent)["leases"] == 0)
        types = agent.event_types("m")
        assert types.count("lease.granted") == types.count("lease.ended") == 2, types
        refused("model_not_found", lambda: Connection(lease_path(agent)).lease("nobody"))
        refused("unavailable", lambda: Connection(lease_path(agent)).lease("m", tier="vram"))
        agent.stop()
        assert not os.path.exists(lease_path(agent))


def an_open_file_names_its_model(build, folder):
    open_to_all(folder)
    path, other = folder / "m.gguf", folder / "other.gguf"
    write_gguf(path, 4 * MIB)
    write_gguf(other, MIB, seed=2)
    os.chmod(path, 0o600)
    settings = for_everybody(config(folder, ("m", path, PINNED, BOOT)))
    with Agent(build, folder, settings) as agent:
        until_pinned(agent)
        with open(path, "rb") as file, Connection(lease_path(agent)) as client:
            lease = client.lease(fd=file.fileno())
            assert lease.answer["model"] == "m" and lease_bytes_equal(lease, path)
            lease.close()
        # A descriptor that was opened for him is a proof, whoever he is now.
        with open(path, "rb") as file:
            assert as_user(NOBODY, "m", agent, fd=file.fileno()) == "granted"
        assert as_user(NOBODY, "m", agent) == "permission_denied"
        with open(other, "rb") as file, Connection(lease_path(agent)) as client:
            refused("model_not_found", lambda: client.lease(fd=file.fileno()))
        for flags, code in ((os.O_WRONLY, "permission_denied"), (os.O_PATH, "permission_denied")):
            fd = os.open(path, flags)
            refused(code, lambda: Connection(lease_path(agent)).lease(fd=fd))
            os.close(fd)
        fd = os.open(folder.path, os.O_RDONLY)
        refused("not_regular_file", lambda: Connection(lease_path(agent)).lease(fd=fd))
        os.close(fd)
        agent.stop()


class Somebody:
    """A process of another user that does something, says a line, and stays until it is let go."""

    def __init__(self, uid, act, groups=()):
        heard, tell = os.pipe()
        wait, self.let_go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.let_go)
                os.setgroups(list(groups))
                os.setgid(uid)
                os.setuid(uid)
                os.write(tell, act().encode())
                os.read(wait, 1)
            finally:
                os._exit(0)
        os.close(tell)
        os.close(wait)
        self.said = os.read(heard, 4096).decode()
        os.close(heard)

    def end(self):
        os.close(self.let_go)
        os.waitpid(self.pid, 0)
        return self.said


def as_user(uid, model, agent, fd=None, groups=()):
    """Asks in a process of that user: "granted", or the code of the refusal."""
    def ask():
        try:
            with Connection(lease_path(agent)) as client:
                client.lease(None if fd is not None else model, fd=fd)
                return "granted"
        except Refused as refusal:
            return refusal.code
    return Somebody(uid, ask, groups).end()


def let_read(path, uid):
    """As setfacl -m u:UID:r does."""
    entries = [(0x01, 6, NOT_AN_ID), (0x02, 4, uid), (0x04, 0, NOT_AN_ID), (0x10, 4, NOT_AN_ID),
               (0x20, 0, NOT_AN_ID)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", acl)


def only_who_may_read_the_files_gets_a_lease(build, folder):
    open_to_all(folder)
    home = folder / "home"
    os.makedirs(home)
    files = {"open": folder / "open.gguf", "mine": folder / "mine.gguf",
             "group": folder / "group.gguf", "hidden": os.path.join(home, "hidden.gguf")}
    for path in files.values():
        write_gguf(path, MIB)
        os.chmod(path, 0o644)
    os.chmod(files["mine"], 0o600)
    os.chmod(files["group"], 0o640)
    os.chown(files["group"], 0, 4321)
    os.chmod(home, 0o700)
    models = [(name, path, PINNED, BOOT) for name, path in files.items()]
    with Agent(build, folder, for_everybody(config(folder, *models))) as agent:
        for name in files:
            until_pinned(agent, name)
        assert as_user(NOBODY, "open", agent) == "granted"
        assert as_user(NOBODY, "mine", agent) == "permission_denied"
        assert as_user(NOBODY, "hidden", agent) == "permission_denied"
        assert as_user(NOBODY, "group", agent) == "permission_denied"
        assert as_user(NOBODY, "group", agent, groups=[4321]) == "granted"
        let_read(files["mine"], NOBODY)
        until("the ACL to count", lambda: as_user(NOBODY, "mine", agent) == "granted")
        assert as_user(1234, "mine", agent) == "permission_denied"
        agent.stop()
    # Otherwise the socket is for the group alone; with no more privileges than the unit has.
    with Agent(build, folder, config(folder, *models), wrap=confined()) as agent:
        assert os.stat(lease_path(agent)).st_mode & 0o007 == 0
        agent.configure(for_everybody(config(folder, *models)))
        agent.ctl("reload")
        assert os.stat(lease_path(agent)).st_mode & 0o777 == 0o666
        for name in files:
            until_pinned(agent, name)
        assert as_user(NOBODY, "open", agent) == "granted"
        assert as_user(NOBODY, "hidden", agent) == "permission_denied"
        agent.configure(config(folder, *models))
        agent.ctl("reload")
        assert os.stat(lease_path(agent)).st_mode & 0o007 == 0
        agent.stop()


def what_is_dropped_is_revoked_and_drains(build, folder):
    path = folder / "m.gguf"
    size = write_gguf(path, 64 * MIB)
    settings = config(folder, ("m", path)).replace("2GiB", "100MiB")
    with Agent(build, folder, settings) as agent:
        agent.ctl("warm", "m", "--tier", "pinned-ram")
        client, lease = until_granted(agent, "m")
        mapping = lease.segment()
        agent.ctl("drop", "m")
        packet, _ = client.receive()
        assert packet["op"] == "revoke" and packet["reason"] == "dropped", packet
        assert packet["deadline_ms"] > 0, packet

        def draining():
            return agent.get("/v1/status")["tiers"]["pinned-ram"]["draining_bytes"]

        until("the copy to drain", lambda: draining() >= size)
        # Nothing was taken from who does not close, and nobody else may have the room meanwhile.
        assert hashlib.sha256(mapping).hexdigest() == sha256(path)
        again = agent.ctl("warm", "m", "--tier", "pinned-ram", check=False)
        assert again.returncode == 1 and "no_budget" in again.stderr, again
        assert "clients still use" in again.stderr, again
        assert "clients still use" in agent.ctl("status").stdout
        refused("no_budget", lambda: Connection(lease_path(agent)).lease("m"))
        # The lease ends; what it mapped is still there, and still counts.
        lease.close()
        client.socket.close()
        until("the lease's end", lambda: agent.get("/v1/status")["tiers"]["pinned-ram"]["leases"]
              == 0)
        assert draining() >= size
        assert hashlib.sha256(mapping).hexdigest() == sha256(path)
        mapping.close()
        until("it to be gone", lambda: draining() == 0)
        agent.ctl("warm", "m", "--tier", "pinned-ram")
        assert "lease.revoked" in agent.event_types("m")
        agent.stop()


def a_changed_file_is_another_generation(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 8 * MIB, seed=1)
    with Agent(build, folder, config(folder, ("m", path, PINNED, BOOT))) as agent:
        until_pinned(agent)
        client, lease = until_granted(agent, "m")
        old = sha256(path)
        write_gguf(folder / "new", 12 * MIB, seed=2)
        os.rename(folder / "new", path)
        packet, _ = client.receive()
        assert packet["op"] == "revoke" and packet["reason"] == "model.changed", packet
        until("the new copy", lambda: pinned(agent)["resident_bytes"] == os.path.getsize(path))
        with open(path, "rb") as file:
            newer = until("a lease on the new bytes",
                          lambda: try_lease(agent, file))
        assert newer.answer["generation"] > lease.answer["generation"]
        assert lease_bytes_equal(newer, path)
        with lease.segment() as mapping:
            assert hashlib.sha256(mapping).hexdigest() == old, "the old bytes were changed"
        agent.stop()


def try_lease(agent, file):
    try:
        return Connection(lease_path(agent)).lease(fd=file.fileno())
    except Refused:
        return None


def clients_that_are_killed_leave_nothing(build, folder, rounds=None):
    """Eight clients at a time, killed in any order."""
    rounds = rounds or int(os.environ.get("ANDIRON_LEASE_ROUNDS", "10"))
    path = folder / "m.gguf"
    size = write_gguf(path, 16 * MIB)
    dice = random.Random(5)
    with Agent(build, folder, config(folder, ("m", path, PINNED, BOOT))) as agent:
        until_pinned(agent)
        fds = None
        for turn in range(rounds):
            clients = [hold_in_a_process(agent, size) for _ in range(8)]
            until("all to have their leases", lambda: pinned(agent)["leases"] == 8)
            dice.shuffle(clients)
            if turn % 2 == 1:  # dropped under them
                agent.ctl("drop", "m")
            for client in clients:
                os.kill(client, signal.SIGKILL)
            for client in clients:
                os.waitpid(client, 0)
            until("all leases to end", lambda: agent.get("/v1/status")["tiers"]["pinned-ram"][
                "leases"] == 0)
            until("nothing to drain", lambda: agent.get("/v1/status")["tiers"]["pinned-ram"][
                "draining_bytes"] == 0)
            agent.ctl("warm", "m", "--tier", "pinned-ram")
            assert agent.get("/v1/status")["tiers"]["pinned-ram"]["used_bytes"] == size
            now = len(os.listdir(f"/proc/{agent.process.pid}/fd"))
            fds = fds or now
            until("its descriptors", lambda: len(os.listdir(
                f"/proc/{agent.process.pid}/fd")) <= fds + 1)
        agent.stop()


def hold_in_a_process(agent, size):
    child = os.fork()
    if child:
        return child
    try:
        with Connection(lease_path(agent)) as client:
            mapping = client.lease("m", wait_ms=60000).segment()
            assert len(mapping) == size and sum(mapping[::4096]) > 0
            while client.receive()[0] is not None:
                pass
        signal.pause()  # never: it is killed
    finally:
        os._exit(1)


def a_killed_agent_takes_nothing_from_its_clients(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 16 * MIB)
    with Agent(build, folder, config(folder, ("m", path, PINNED, BOOT))) as agent:
        until_pinned(agent)
        client, lease = until_granted(agent, "m")
        inode = os.fstat(lease.fds[1]).st_ino
        make_cold(path)
        agent.kill()
        assert client.receive()[0] is None
        assert lease_bytes_equal(lease, path)
        make_cold(path)
        agent.start()
        again, newer = until_granted(agent, "m")
        assert os.fstat(newer.fds[1]).st_ino == inode, "it was made anew"
        assert resident(path) == 0, "the source was read again"
        again.socket.close()
        # A client of the agent before: what it keeps of a copy that goes is counted.
        mapping = lease.segment()
        agent.kill()
        agent.start()
        until_pinned(agent)
        agent.ctl("drop", "m")
        until("it to drain", lambda: agent.get("/v1/status")["tiers"]["pinned-ram"][
            "draining_bytes"] >= 16 * MIB)
        mapping.close()
        lease.close()
        newer.close()
        until("it to be gone", lambda: agent.get("/v1/status")["tiers"]["pinned-ram"][
            "draining_bytes"] == 0)
        agent.stop()


def a_set_of_many_files(build, folder):
    store = folder / "many"
    os.makedirs(store)
    names = [f"part{i:03}.bin" for i in range(150)]
    for i, name in enumerate(names):
        with open(os.path.join(store, name), "wb") as file:
            file.write(os.urandom(i * 37))
    write_gguf(os.path.join(store, "z.gguf"), MIB)
    with Agent(build, folder, config(folder, ("m", store, PINNED, BOOT))) as agent:
        until_pinned(agent)
        client, lease = until_granted(agent, "m")
        files = lease.index["files"]
        assert len(lease.fds) == len(files) + 1
        for segment in lease.index["segments"]:
            name = files[segment["file"]]["name"]
            with open(os.path.join(store, name), "rb") as file:
                assert os.pread(lease.fds[segment["fd"]], 2 * MIB, 0) == file.read(), name
        client.socket.close()
        agent.stop()


if __name__ == "__main__":
    own_namespace()
    main([a_lease_is_the_copy_and_ends_with_its_connection, an_open_file_names_its_model,
          only_who_may_read_the_files_gets_a_lease, what_is_dropped_is_revoked_and_drains,
          a_changed_file_is_another_generation, clients_that_are_killed_leave_nothing, a_killed_agent_takes_nothing_from_its_clients,
          a_set_of_many_files])
