#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the journal gets from an agent whose stderr it is: records with fields. The journal's side is
a real socket, in a mount namespace where it lies in the journal's place."""
import os
import socket
import struct
import subprocess
import tempfile

from harness import MIB, Agent, main, make_cold, need_root, skip, until, write_gguf

AT = "/run/systemd/journal"
WRAP = f'mount -t tmpfs none /run && mkdir -p {AT} && mount --bind "$0" {AT} && exec "$@"'


def parse(datagram):
    """By the page of the native protocol; a field that comes twice is an error."""
    fields = {}
    while datagram:
        line, datagram = datagram.split(b"\n", 1)
        name, equals, value = line.partition(b"=")
        if not equals:
            size, = struct.unpack_from("<Q", datagram)
            value, datagram = datagram[8:8 + size], datagram[8 + size:]
            assert datagram[:1] == b"\n", datagram
            datagram = datagram[1:]
        assert name.decode() not in fields, (name, fields)
        fields[name.decode()] = value.decode(errors="surrogateescape")
    return fields


class Journal:
    def __enter__(self):
        # Not in the test's own folder: a socket's path has 107 bytes at most.
        self.folder = tempfile.TemporaryDirectory(prefix="andiron-")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(os.path.join(self.folder.name, "socket"))
        self.socket.settimeout(60)
        self.records = []
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.folder.cleanup()

    def agent(self, build, folder, config):
        """One whose stderr is the journal, by what the environment says."""
        agent = Agent(build, folder, config, ["unshare", "--mount", "--propagation", "private", "sh",
                                              "-c", WRAP, self.folder.name])
        with open(agent.log_path, "ab") as log:
            status = os.fstat(log.fileno())
        agent.environment["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
        return agent

    def until(self, **wanted):
        """Waits for the record with those fields, as journalctl would find it; gives it."""
        seen = 0
        while True:
            for record in self.records[seen:]:
                if all(record.get(name) == value for name, value in wanted.items()):
                    return record
            seen = len(self.records)
            self.records.append(parse(self.socket.recv(1 << 18)))


def config(folder):
    return f"""
[agent]
allow_roots = ["{folder.path}"]
[budget]
ram_headroom = "1GiB"
[watch]
docker = "off"
[[model]]
name = "assistant"
source = "{folder / 'assistant.gguf'}"
hold = "cached"
preload = ["container:ollama"]
"""


def may_unshare():
    need_root()
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True,
                      check=False).returncode != 0:
        skip("needs to make a mount namespace")


def events_have_fields(build, folder):
    may_unshare()
    path = folder / "assistant.gguf"
    write_gguf(path, 16 * MIB)
    make_cold(path)
    with Journal() as journal, journal.agent(build, folder, config(folder)) as agent:
        agent.ctl("warm", "assistant")
        warmed = journal.until(ANDIRON_EVENT="model.warmed", ANDIRON_MODEL="assistant")
        assert warmed["MESSAGE"].startswith("assistant: warm, 16 MiB read in "), warmed
        assert warmed["PRIORITY"] == "6" and warmed["SYSLOG_IDENTIFIER"] == "andirond", warmed
        assert warmed["ANDIRON_JOB"] == str(agent.get("/v1/jobs")["jobs"][0]["id"]), warmed
        assert warmed["CODE_FILE"] == "agent/core/job_end.cpp" and warmed["CODE_LINE"], warmed
        make_cold(path)  # cached pages are anybody's to take
        evicted = journal.until(ANDIRON_EVENT="model.evicted", ANDIRON_MODEL="assistant")
        assert evicted["MESSAGE"].endswith(" of its 16 MiB were evicted"), evicted
        status, _ = agent.call("POST", "/v1/hooks/container", {
            "id": "1" * 64, "name": "ollama", "status": "running", "pid": 4242})
        assert status == 200
        started = journal.until(ANDIRON_EVENT="container.started")
        assert started["MESSAGE"].startswith("container ollama started"), started
        os.rename(path, path + ".away")
        missing = journal.until(ANDIRON_EVENT="model.missing", ANDIRON_MODEL="assistant")
        assert missing["ANDIRON_ERROR"] == "source_not_found", missing
        agent.configure("nonsense = 1")
        agent.ctl("reload", check=False)
        wrong = journal.until(ANDIRON_ERROR="bad_config")
        assert wrong["PRIORITY"] == "3" and "nonsense" in wrong["MESSAGE"], wrong
        agent.stop()
        assert agent.log() == "", agent.log()


def names_are_values_and_no_more(build, folder):
    may_unshare()
    name = folder / "a\nPRIORITY=0\nANDIRON_EVENT=model.evicted\n\u00e9.gguf"
    write_gguf(name, MIB)
    broken = folder / "broken\n.gguf"
    with open(broken, "wb") as file:
        file.write(b"GGUF")
    with Journal() as journal, journal.agent(build, folder, config(folder)) as agent:
        agent.ctl("warm", name)
        warmed = journal.until(ANDIRON_EVENT="model.warmed")
        assert warmed["ANDIRON_MODEL"] == name and warmed["PRIORITY"] == "6", warmed
        assert "\n" not in warmed["MESSAGE"] and "\\x0aPRIORITY=0" in warmed["MESSAGE"], warmed
        agent.ctl("warm", broken, check=False)
        failed = journal.until(ANDIRON_MODEL=broken, ANDIRON_EVENT="job.failed")
        assert failed["ANDIRON_ERROR"] in ("truncated", "bad_format"), failed
        agent.stop()


main([events_have_fields, names_are_values_and_no_more])
