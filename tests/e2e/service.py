#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The agent as a service manager runs it: with a socket to report to, a watchdog, and a control
socket that is handed over. The manager's side of the protocols is played here, with real sockets."""
import json
import os
import signal
import socket
import sys
import tempfile

from harness import MIB, Agent, UnixConnection, main, until, write_gguf
from lease_wire import Connection, Refused

# Passed sockets begin at 3, and LISTEN_PID is the process itself: only that can know both.
LAUNCH = """
import os, sys
passed = [os.dup(int(fd)) for fd in sys.argv[1].split(",")]
for target, fd in enumerate([os.dup2(fd, 100 + i) for i, fd in enumerate(passed)], 3):
    os.dup2(fd, target)
os.closerange(3 + len(passed), 200)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class Manager:
    """Listens where NOTIFY_SOCKET leads."""

    def __init__(self):
        # Not in the test's own folder: a socket's path has 107 bytes at most.
        self.folder = tempfile.TemporaryDirectory(prefix="andiron-")
        self.path = os.path.join(self.folder.name, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(60)
        self.heard = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.folder.cleanup()

    def listen(self, name, kind=socket.SOCK_STREAM):
        """A listening Unix socket, as a .socket unit makes it; with its path."""
        path = os.path.join(self.folder.name, name)
        listener = socket.socket(socket.AF_UNIX, kind)
        listener.bind(path)
        listener.listen()
        return listener, path

    def until(self, wanted):
        """Waits for a message that has this assignment, or begins with it; gives the message."""
        while True:
            message = self.socket.recv(65536).decode()
            self.heard.append(message)
            if any(line.startswith(wanted) for line in message.splitlines()):
                return message


def handing_over(build, folder, manager, listeners, names, config=""):
    fds = [listener.fileno() for listener in listeners]
    return Agent(build, folder, config, pass_fds=fds,
                 wrap=[sys.executable, "-c", LAUNCH, ",".join(map(str, fds))],
                 environment={"LISTEN_FDS": str(len(fds)), "LISTEN_FDNAMES": ":".join(names),
                              "NOTIFY_SOCKET": manager.path})


def tells_how_it_stands(build, folder):
    path = folder / "m.gguf"
    write_gguf(path, 2 * MIB)
    config = f'[[model]]\nname = "m"\nsource = "{path}"\npreload = "boot"\n'
    with Manager() as manager:
        with Agent(build, folder, config, environment={"NOTIFY_SOCKET": manager.path}) as agent:
            manager.until("READY=1")
            assert agent.answers()
            sentence = manager.until("STATUS=1 of 1 model is warm, ")
            assert " held" in sentence, sentence
            agent.process.send_signal(signal.SIGHUP)
            reloading = manager.until("RELOADING=1").splitlines()
            clock = dict(line.split("=", 1) for line in reloading)["MONOTONIC_USEC"]
            assert int(clock) > 0, reloading
            manager.until("READY=1")
            agent.ctl("reload")
            manager.until("RELOADING=1")
            manager.until("READY=1")
            agent.configure("nonsense = 1")
            assert agent.ctl("reload", check=False).returncode == 1
            manager.until("RELOADING=1")
            manager.until("READY=1")  # with the old configuration
            agent.stop()
            manager.until("STOPPING=1")
        assert not any("WATCHDOG" in message for message in manager.heard), manager.heard


def feeds_the_watchdog(build, folder):
    with Manager() as manager:
        with Agent(build, folder, environment={"NOTIFY_SOCKET": manager.path,
                                               "WATCHDOG_USEC": "200000"}) as agent:
            for _ in range(5):
                manager.until("WATCHDOG=1")
            agent.stop()
    # One that is meant for another process is not ours to feed.
    with Manager() as manager:
        with Agent(build, folder, environment={"NOTIFY_SOCKET": manager.path, "WATCHDOG_PID": "1",
                                               "WATCHDOG_USEC": "200000"}) as agent:
            agent.stop()
            manager.until("STOPPING=1")
        assert not any("WATCHDOG" in message for message in manager.heard), manager.heard


def starts_without_anybody_who_listens(build, folder):
    with Agent(build, folder, environment={"NOTIFY_SOCKET": folder / "nobody"}) as agent:
        agent.stop()


def never_waits_for_who_does_not_read(build, folder):
    with Manager() as manager:
        filler = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        filler.setblocking(False)
        filler.connect(manager.path)
        try:
            while True:
                filler.send(b"X_FILLER=1")
        except BlockingIOError:
            pass
        with Agent(build, folder, environment={"NOTIFY_SOCKET": manager.path}) as agent:
            assert agent.get("/v1/status")["version"]
            # What found no room is said again when there is some.
            manager.until("READY=1")
            manager.until("STATUS=no model is to be kept warm")
            agent.stop()


def takes_the_socket_that_is_handed_over(build, folder):
    with Manager() as manager:
        listener, path = manager.listen("control.sock")
        os.chmod(path, 0o660)
        before = os.stat(path)
        # Who comes before the agent does is served when it does.
        early = UnixConnection(path)
        early.request("GET", "/healthz")
        agent = handing_over(build, folder, manager, [listener], ["control"])
        agent.socket = path
        with agent:
            manager.until("READY=1")
            assert early.getresponse().read() == b'{"ok":true}'
            assert not os.path.exists(os.path.join(agent.run_dir, "control.sock"))
            agent.stop()
            after = os.stat(path)
            assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
            # The manager still listens: nobody is turned away during a restart.
            waiting = UnixConnection(path)
            waiting.request("GET", "/healthz")
            agent.start()
            assert waiting.getresponse().status == 200
            # Its name is not ours to bring back. Two ticks are enough to try.
            open_still = UnixConnection(path)

            def uptime():
                open_still.request("GET", "/v1/status")
                return json.loads(open_still.getresponse().read())["uptime_s"]
            removed_at = uptime()
            os.unlink(path)
            until("two ticks", lambda: uptime() > removed_at + 2.1)
            assert not os.path.exists(path) and "made anew" not in agent.log(), agent.log()
            agent.stop()
        listener.close()


def takes_the_lease_socket_as_well(build, folder):
    readers = '[agent]\nlease_access = "readers"\n'
    with Manager() as manager:
        stream, _ = manager.listen("stream.sock")
        agent = handing_over(build, folder, manager, [stream], ["lease"])
        agent.launch()
        assert agent.process.wait(60) == 1, agent.log()
        assert "is not a listening Unix packet socket" in agent.log(), agent.log()
        listener, path = manager.listen("lease.sock", socket.SOCK_SEQPACKET)
        os.chmod(path, 0o660)
        with handing_over(build, folder, manager, [listener], ["lease"], readers) as agent:
            assert not os.path.exists(os.path.join(agent.run_dir, "lease.sock"))
            assert os.stat(path).st_mode & 0o777 == 0o666
            with Connection(path) as client:
                try:
                    client.lease("nobody")
                    raise AssertionError("granted")
                except Refused as refusal:
                    assert refusal.code == "model_not_found", refusal
            agent.stop()
            assert os.path.exists(path)


def takes_only_what_fits(build, folder):
    with Manager() as manager:
        datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        idle = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        internet = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        internet.bind(("127.0.0.1", 0))
        internet.listen()
        for wrong in (datagrams, idle, internet):
            agent = handing_over(build, folder, manager, [wrong], ["control"])
            agent.launch()
            assert agent.process.wait(60) == 1, agent.log()
            assert "is not a listening Unix stream socket" in agent.log(), agent.log()
            assert "(bad_config)" in agent.log(), agent.log()
        # What it does not know is closed, and does not keep it from serving its own.
        listener, path = manager.listen("other.sock")
        with handing_over(build, folder, manager, [internet, listener], ["web", "other"]) as agent:
            assert 'passes a socket "other"' in agent.log(), agent.log()
            links = os.listdir(f"/proc/{agent.process.pid}/fd")
            inodes = {os.stat(f"/proc/{agent.process.pid}/fd/{fd}").st_ino for fd in links}
            assert os.fstat(internet.fileno()).st_ino not in inodes
            agent.stop()
            assert os.path.exists(path)


main([tells_how_it_stands, feeds_the_watchdog, starts_without_anybody_who_listens,
      never_waits_for_who_does_not_read, takes_the_socket_that_is_handed_over,
      takes_the_lease_socket_as_well, takes_only_what_fits])
