# SPDX-License-Identifier: MIT
"""A lease socket whose other end does as it is told. It stands in for the agent only to send what a real one
never does: garbage, short or long packets, wrong counts of descriptors, an index that lies, silence, a
hang-up; or what it seldom does: a revoke, more descriptors than fit one packet."""
import array
import json
import os
import socket
import threading

HELLO = {"op": "hello", "protocol": 1, "nonce": "0" * 32, "gpus": []}
# Long enough for any client's deadline in a test; a script that waits ends when the client has gone.
PATIENCE = 60


class Peer:
    """One client, as a script sees it."""

    def __init__(self, connection):
        self.connection = connection
        self.fds = []
        connection.settimeout(PATIENCE)

    def send(self, message, fds=()):
        packet = message if isinstance(message, bytes) else json.dumps(message).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.connection.sendmsg([packet], rights)

    def asked(self):
        """Greets, and gives what the client asks for; what came with it is in `fds` until the script ends."""
        self.send(HELLO)
        packet, self.fds, _, _ = socket.recv_fds(self.connection, 1 << 17, 8)
        return json.loads(packet)

    def until_gone(self):
        """Silence, until the client hangs up."""
        while self.connection.recv(1 << 17):
            pass


class ScriptedAgent:
    """Listens at `path` and runs `script(peer)` for each client, on a thread of the client's. What a script
    raises, but for a client that has gone, is raised again at the end."""

    def __init__(self, path, script, kind=socket.SOCK_SEQPACKET):
        self.path = path
        self.script = script
        self.failed = None
        self.listener = socket.socket(socket.AF_UNIX, kind)
        self.listener.bind(path)
        self.listener.listen(8)
        self.threads = [threading.Thread(target=self.accept, daemon=True)]

    def __enter__(self):
        self.threads[0].start()
        return self

    def __exit__(self, kind, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.listener.close()
        os.unlink(self.path)
        if self.failed is not None and kind is None:
            raise self.failed

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.threads.append(threading.Thread(target=self.serve, args=(connection,), daemon=True))
            self.threads[-1].start()

    def serve(self, connection):
        peer = Peer(connection)
        with connection:
            try:
                self.script(peer)
            except (BrokenPipeError, ConnectionResetError):
                pass
            except Exception as failed:
                self.failed = failed
        for fd in peer.fds:
            os.close(fd)


def memfd(content, name="scripted"):
    fd = os.memfd_create(name)
    os.write(fd, content)
    return fd


class Model:
    """What a good agent would hand over of these files, to be made worse: `index` is what goes into the index,
    `fds` the descriptors of the segments. Tensors are (name, dtype, shape, offset, bytes) of a file."""

    def __init__(self, files, tensors=()):
        self.files = files
        self.fds = [memfd(content) for content in files.values()]
        self.index = {
            "model": "m", "generation": 3, "tier": "pinned-ram",
            "bytes": sum(map(len, files.values())), "later": {"a": [1, None, {}]},
            "files": [{"name": name, "bytes": len(content), "companion": False,
                       "identity": {"dev": 1, "ino": 2, "size": len(content), "mtime_ns": -5,
                                    "ctime_ns": 0}} for name, content in files.items()],
            "segments": [{"file": i, "file_offset": 0, "bytes": len(content),
                          "transport": "file-fd", "fd": i + 1, "offset": 0}
                         for i, content in enumerate(files.values())],
            "tensors": [{"name": name, "dtype": dtype, "shape": shape, "segment": segment,
                         "offset": offset, "bytes": size}
                        for segment, name, dtype, shape, offset, size in tensors]}

    def grant(self, peer, index=None, per_packet=64, **changes):
        """The grant and its descriptors, as many a packet as told."""
        text = index if index is not None else json.dumps(self.index).encode()
        index_fd = text if isinstance(text, int) else memfd(text)
        fds = [index_fd, *self.fds]
        parts = [fds[i:i + per_packet] for i in range(0, len(fds), per_packet)]
        granted = {"op": "granted", "lease": 7, "generation": 3, "model": "m",
                   "tier": "pinned-ram", "bytes": self.index["bytes"], "fds": len(parts[0]),
                   "more": len(parts) > 1, **changes}
        peer.send(granted, parts[0])
        for i, part in enumerate(parts[1:], 2):
            peer.send({"op": "fds", "fds": len(part), "more": i < len(parts)}, part)
        if not isinstance(text, int):
            os.close(index_fd)

    def close(self):
        for fd in self.fds:
            os.close(fd)
