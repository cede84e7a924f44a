# SPDX-License-Identifier: MIT
"""What is checked inside the guest, boot after boot of one disk. A check's docstring is its name;
what it returns is printed with its result."""
import glob
import grp
import hashlib
import json
import mmap
import os
import re
import shutil
import subprocess
import sys

from harness import make_cold, meminfo, mincore_resident, pages, resident, until
from lease_wire import Connection, Refused
from system import Skip, files, has_unit, property_of, seconds_of, sh, write

PACKAGE = "/srv/vm/andiron.deb"  # absent: /srv/vm/stage is copied instead
PACKAGED = os.path.exists(PACKAGE)
MODEL = "/srv/models/assistant.gguf"
OTHER = "/srv/models/other.gguf"  # as large, and nobody's model
ABSENT = "/srv/models/absent.gguf"
READER_SAW = "/var/lib/vm-reader"
BEFORE = "/var/lib/vm-before.json"
STEP = 8 << 20

# Little memory, so what must stay free is little too.
BUDGET = """
[budget]
ram = "60%"
ram_headroom = "32MiB"
"""


def entry(name, source, preload="boot"):
    return f'''
[[model]]
name = "{name}"
source = "{source}"
hold = "locked"
preload = "{preload}"
'''


# A service that needs the model: what is resident when it starts is what the boot has preloaded.
READER = f"""[Unit]
Description=Reads the model
After=andiron-preload.service andiron-warm@assistant.service andiron-warm@absent.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'fincore --bytes --noheadings --output RES {MODEL} >{READER_SAW}'
ExecStart=/bin/cat {MODEL}
StandardOutput=null

[Install]
WantedBy=multi-user.target
"""


def configure(*models):
    write("/etc/andiron/andiron.toml", BUDGET + "".join(models))


def model(name="assistant"):
    return json.loads(sh("andironctl", "--json", "models", name))


def in_cache(name="assistant"):
    return model(name)["tiers"]["page-cache"]


def answers():
    asked = subprocess.run(["andironctl", "status"], capture_output=True, check=False)
    return asked.returncode == 0


def size():
    return os.path.getsize(MODEL)


def until_held():
    return until("the model to be locked", lambda: in_cache()["locked_bytes"] >= size())


# ---- The first boot: a system without Andiron gets it.

def install():
    """install: it installs, starts, and its control socket is the group's"""
    write(BEFORE, json.dumps(files()))
    configure(entry("assistant", MODEL))
    if PACKAGED:
        output = sh("apt-get", "install", "-y", "--no-install-recommends",
                    "-o", "Dpkg::Options::=--force-confold", PACKAGE, seconds=180)
    else:
        shutil.copytree("/srv/vm/stage", "/", dirs_exist_ok=True)
        output = sh("groupadd", "--system", "andiron")
        sh("systemctl", "daemon-reload")
        sh("systemctl", "enable", "--now", "andirond.service")
    until("the agent to answer", answers)
    assert property_of("andirond.service", "ActiveState") == "active"
    mode = sh("stat", "-c", "%a %U %G", "/run/andiron/control.sock").strip()
    assert mode == "660 root andiron", mode
    return output + sh("andironctl", "doctor")


def prepare_preload():
    """install: the next boot is told to preload the model, before a service that reads it"""
    write("/etc/systemd/system/vm-reader.service", READER)
    sh("systemctl", "daemon-reload")
    units = ["vm-reader.service"]
    if has_unit("andiron-preload.service"):
        units.append("andiron-preload.service")
    elif has_unit("andiron-warm@.service"):
        units.append("andiron-warm@assistant.service")
    assert len(units) == 2, "no unit preloads"
    sh("systemctl", "enable", *units)
    return f"enabled: {units}"


def reload_takes_configuration():
    """service: systemctl reload takes a changed configuration, in the same process"""
    if property_of("andirond.service", "CanReload") != "yes":
        raise Skip("the unit cannot reload")
    pid = property_of("andirond.service", "MainPID")
    configure(entry("assistant", MODEL), entry("second", OTHER, preload="never"))
    sh("systemctl", "reload", "andirond.service")
    until("the second model", lambda: "second" in sh("andironctl", "models"))
    configure(entry("assistant", MODEL))
    sh("systemctl", "reload", "andirond.service")
    until("one model", lambda: "second" not in sh("andironctl", "models"))
    assert property_of("andirond.service", "MainPID") == pid


def watchdog():
    """service: systemd watches over it, by sd_notify and a watchdog"""
    if property_of("andirond.service", "Type") not in ("notify", "notify-reload"):
        raise Skip("the unit is not of Type=notify")
    watched = property_of("andirond.service", "WatchdogUSec")
    assert watched not in ("0", "infinity"), watched
    assert property_of("andirond.service", "NRestarts") == "0"
    return f"WatchdogUSec={watched}, StatusText={property_of('andirond.service', 'StatusText')}"


def journal():
    """service: the journal has its messages, with their priorities"""
    lines = sh("journalctl", "-b", "-u", "andirond.service", "-o", "json", "--no-pager").split("\n")
    entries = [json.loads(line) for line in lines if line]
    own = [entry for entry in entries if entry.get("_COMM") == "andirond"]
    assert own, "no message of andirond"
    assert all(entry["MESSAGE"] for entry in own)
    # A "<4>" that is still there was meant for the journal and not understood by it.
    assert not any(re.match(r"<\d>", entry["MESSAGE"]) for entry in own)
    return "\n".join(f"<{entry['PRIORITY']}> {entry['MESSAGE']}" for entry in own)


def journal_fields():
    """service: the journal finds records by their model and by their event"""
    until_held()

    def warmed():
        lines = sh("journalctl", "-b", "-q", "-u", "andirond.service", "ANDIRON_MODEL=assistant",
                   "ANDIRON_EVENT=model.warmed", "-o", "json", "--no-pager", check=False).splitlines()
        return [json.loads(line) for line in lines]
    entry = until("the record of a warm", warmed)[-1]
    assert entry["MESSAGE"].startswith("assistant: warm, "), entry
    assert entry["SYSLOG_IDENTIFIER"] == "andirond" and entry["PRIORITY"] == "6", entry
    assert int(entry["ANDIRON_JOB"]) > 0, entry
    assert entry["CODE_FILE"] == "agent/core/job_end.cpp", entry
    return json.dumps({key: value for key, value in entry.items() if key.startswith("ANDIRON_")})


def security():
    """service: how far it is confined, by systemd-analyze security"""
    text = sh("systemd-analyze", "security", "--no-pager", "andirond.service", check=False)
    assert "Overall exposure level" in text, text
    return text if PACKAGED else text.splitlines()[-1]


# ---- The second boot: the model is there before who needs it, and stays through what happens.

def resident_before_reader():
    """preload: after a boot the model is resident before the service that reads it"""
    with open(READER_SAW) as file:
        saw = int(file.read())
    assert saw == pages(size()), f"{saw} of {size()} bytes were resident"
    assert resident(OTHER) == 0, "a file that nobody asked for is resident: this proves nothing"
    assert until_held()
    return sh("systemd-analyze", "--no-pager", "critical-chain", "vm-reader.service", check=False)


def booted_whole():
    """boot: no unit failed"""
    failed = sh("systemctl", "--failed", "--no-legend", "--plain")
    assert not failed.strip(), failed


def stop_and_start():
    """restart: a stop lets go of every page, a start holds the model again"""
    until_held()
    until("all of it to count as locked", lambda: meminfo("Mlocked") >= size())
    sh("systemctl", "stop", "andirond.service")
    assert meminfo("Mlocked") < size(), meminfo("Mlocked")
    make_cold(MODEL)
    assert resident(MODEL) == 0, resident(MODEL)
    sh("systemctl", "start", "andirond.service")
    until("the agent to answer", answers)
    until_held()
    assert resident(MODEL) == pages(size())


def kill():
    """restart: after SIGKILL systemd starts it again, and it holds the model again"""
    before = property_of("andirond.service", "MainPID")
    sh("systemctl", "kill", "--kill-whom=main", "-s", "KILL", "andirond.service")
    until("another process",
          lambda: property_of("andirond.service", "MainPID") not in ("0", before))
    until("the agent to answer", answers)
    until_held()
    assert resident(MODEL) == pages(size())
    until("all of it to count as locked", lambda: meminfo("Mlocked") >= size())


class Hog:
    """A process that takes memory a step at a time, and is the first to go when there is none."""

    PROGRAM = f"""
import sys
blocks = []
open("/proc/self/oom_score_adj", "w").write("1000")
for line in sys.stdin:
    blocks.append(b"\\1" * {STEP})
    print(len(blocks), flush=True)
"""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", self.PROGRAM], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def grow(self):
        """Bytes that it has now."""
        self.process.stdin.write("more\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the kernel has killed the hog"
        return int(line) * STEP


def squeeze(hold, enough):
    """Warms the model with that hold, maps another file after it as `mapped` would, and has a hog
    take memory until enough(bytes that it took, bytes left of the model), or until that file is
    gone. (those two, and what there is to say)"""
    sh("andironctl", "drop", "assistant")
    make_cold(OTHER)
    said = sh("andironctl", "warm", "assistant", "--hold", hold, check=False).strip()
    reached = in_cache()["hold"]
    if reached != hold:
        raise (AssertionError if PACKAGED else Skip)(f"the hold is {reached}; {said}")
    size_of_other = os.path.getsize(OTHER)
    with open(OTHER) as file:
        mapping = mmap.mmap(file.fileno(), size_of_other, prot=mmap.PROT_READ,
                            flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    with mapping, Hog() as hog:
        taken = 0
        while (not enough(taken, mincore_resident(MODEL))
               and mincore_resident(OTHER) > size_of_other // 10):
            taken = hog.grow()
        kept, left = mincore_resident(MODEL), mincore_resident(OTHER)
    return taken, kept, (f"{said}\nthe hog took {taken >> 20} MiB; {kept >> 20} MiB are left of the"
                         f" model, {left >> 20} of the other file")


def protected():
    """hold: a protected model stays whole under a memory hog that evicts another mapped file, or a
    model that is only mapped"""
    lost = size() // 10
    taken, _, first = squeeze("mapped", lambda _, kept: kept < pages(size()) - lost)
    _, kept, said = squeeze("protected", lambda took, _: took >= taken)
    assert kept == pages(size()), f"{kept} of {size()} bytes are left: {first}\n{said}"
    return f"{first}\n{said}"


HOOK = "/usr/share/containers/oci/hooks.d/andiron.json"
# Without a system bus, or a journal to ask.
PODMAN = ["podman", "--cgroup-manager=cgroupfs", "--events-backend=file"]
STORAGE = """[storage]
driver = "vfs"
graphroot = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
"""


def podman_hook():
    """containers: Podman's hook has a container's model warmed, at each start"""
    if not shutil.which("podman"):
        raise Skip("no podman in this image")
    os.makedirs(os.path.dirname(HOOK), exist_ok=True)
    shutil.copy("/srv/vm/andiron.json", HOOK)
    write("/etc/containers/storage.conf", STORAGE)
    make_cold(OTHER)
    configure(entry("assistant", MODEL), entry("of-container", OTHER, "container:tester"))
    sh("systemctl", "reload", "andirond.service")
    until("the second model", lambda: "of-container" in sh("andironctl", "models"))
    assert mincore_resident(OTHER) == 0, "it was not waited for the container"
    sh("tar", "-C", "/", "-cf", "/tmp/tester.tar", "usr/bin/busybox")
    sh(*PODMAN, "import", "/tmp/tester.tar", "tester")
    try:
        sh(*PODMAN, "run", "-d", "--name", "tester", "--network=none", "localhost/tester",
           "/usr/bin/busybox", "sleep", "1000")
        until("the model of the container that was started", held_for_container)
        sh("andironctl", "drop", "of-container")
        assert mincore_resident(OTHER) == 0
        sh(*PODMAN, "restart", "--time", "0", "tester")
        until("the model of the container that was restarted", held_for_container)
    finally:
        said = sh(*PODMAN, "rm", "--force", "--time", "0", "tester", check=False)
        shutil.rmtree("/var/lib/containers", ignore_errors=True)
        os.unlink(HOOK)
        os.unlink("/etc/containers/storage.conf")
    until("the container's end", lambda: '"container.stopped"' in events().splitlines()[-1])
    configure(entry("assistant", MODEL))
    sh("systemctl", "reload", "andirond.service")
    return said + events()


def held_for_container():
    return in_cache("of-container")["locked_bytes"] >= os.path.getsize(OTHER)


def events():
    return sh("andironctl", "--json", "events")


# In the configuration, and never asked for.
UNASKED = f"""
[[model]]
name = "unasked"
source = "{OTHER}"
"""


def prepare_unasked():
    """reboot: a model that somebody reads by himself is seen"""
    configure(entry("assistant", MODEL), UNASKED)
    sh("systemctl", "reload", "andirond.service")
    subprocess.run(["cat", OTHER], stdout=subprocess.DEVNULL, check=True)
    until("the agent to see it",
          lambda: in_cache("unasked")["resident_bytes"] >= os.path.getsize(OTHER))


def pinned_ram():
    """pinned: a copy in pinned RAM is seen by all, outlives a restart and a kill, and goes at a stop"""
    sh("andironctl", "warm", "assistant", "--tier", "pinned-ram")
    copy = sh("andironctl", "path", "assistant").strip()
    sh("cmp", copy, MODEL)
    before = os.stat(copy).st_ino
    sh("systemctl", "restart", "andirond.service")
    until("the agent to answer", answers)
    sh("systemctl", "kill", "--kill-whom=main", "-s", "KILL", "andirond.service")
    until("the agent to be there again", answers)
    until("the copy to be held", lambda: model()["tiers"]["pinned-ram"]["resident_bytes"] == size())
    assert os.stat(copy).st_ino == before, "it was made anew"
    sh("cmp", copy, MODEL)
    doctor = sh("andironctl", "doctor")
    sh("systemctl", "stop", "andirond.service")
    assert not os.path.exists(copy), "it stays in memory though nobody is there to hold it"
    with open("/proc/mounts") as file:
        assert "pinned" not in file.read()
    sh("systemctl", "start", "andirond.service")
    until("a copy to be made again",
          lambda: model()["tiers"]["pinned-ram"]["resident_bytes"] == size())
    sh("andironctl", "warm", "assistant", "--tier", "page-cache")
    return doctor


def lease():
    """lease: a member of group andiron gets one by the model's name, under the unit's confinement"""
    where = "/run/andiron/lease.sock"
    mode = sh("stat", "-c", "%a %U %G", where).strip()
    assert mode == "660 root andiron", mode
    sh("andironctl", "warm", "assistant", "--tier", "pinned-ram")
    heard, tell = os.pipe()
    child = os.fork()
    if child == 0:
        said = "died"
        try:
            os.setgroups([grp.getgrnam("andiron").gr_gid])
            os.setgid(12345)
            os.setuid(12345)
            with Connection(where) as client, client.lease("assistant").segment() as mapping:
                said = hashlib.sha256(mapping).hexdigest()
        except (OSError, Refused) as problem:
            said = f"{type(problem).__name__}: {problem}"
        finally:
            os.write(tell, said.encode())
            os._exit(0)
    os.waitpid(child, 0)
    said = os.read(heard, 4096).decode()
    assert said == sh("sha256sum", MODEL).split()[0], said
    until("its end", lambda: model()["tiers"]["pinned-ram"]["leases"] == 0)
    sh("andironctl", "warm", "assistant", "--tier", "page-cache")


def prepare_missing():
    """missing: the next boot is told to preload a model that is not there as well"""
    sh("andironctl", "warm", "assistant", "--hold", "locked")
    configure(entry("assistant", MODEL), entry("absent", ABSENT), UNASKED)
    os.unlink(READER_SAW)
    if not has_unit("andiron-preload.service"):
        sh("systemctl", "enable", "andiron-warm@absent.service")


# ---- The third boot: a model that is not there, and the end of it all.

def deadline(unit):
    """Seconds that the unit waits for a model: what it is told in its environment, or its own."""
    told = re.search(r"_TIMEOUT=(\S+)", property_of(unit, "Environment"))
    return seconds_of(told[1] if told else property_of(unit, "TimeoutStartUSec"))


def missing_model():
    """missing: a model that is not there holds the boot no longer than the deadline"""
    assert not os.path.exists(ABSENT)
    assert property_of("multi-user.target", "ActiveState") == "active"
    said = []
    for unit in ("andiron-preload.service", "andiron-warm@absent.service"):
        if not has_unit(unit.replace("@absent", "@")) or property_of(
                unit, "InactiveExitTimestampMonotonic") == "0":
            continue
        began = int(property_of(unit, "InactiveExitTimestampMonotonic"))
        ended = max(int(property_of(unit, "ActiveEnterTimestampMonotonic")),
                    int(property_of(unit, "InactiveEnterTimestampMonotonic")))
        took = (ended - began) / 1e6
        limit = deadline(unit)
        assert 0 < took <= limit, f"{unit} held the boot for {took} of {limit} s"
        said.append(f"{unit}: {took:.1f} s, {property_of(unit, 'Result')}")
    assert said, "nothing preloaded"
    with open(READER_SAW) as file:
        saw = int(file.read())
    assert saw == pages(size()), f"{saw} of {size()} bytes of the other model were resident"
    until("the agent to say so", lambda: model("absent")["state"] == "missing")
    return "\n".join(said)


def read_again():
    """reboot: what was in memory without anybody's asking is there again, and nobody holds it"""
    until("it to come back", lambda: mincore_resident(OTHER) == pages(os.path.getsize(OTHER)))
    said = sh("andironctl", "explain", "unasked")
    assert "Before the reboot" in said and "it is not read again" not in said, said
    assert in_cache("unasked")["hold"] is None
    return said


def purge():
    """purge: nothing is left, no file, mount, group, unit or locked page"""
    if not PACKAGED:
        raise Skip("it was staged, not installed from a package")
    sh("systemctl", "disable", "vm-reader.service")
    os.unlink("/etc/systemd/system/vm-reader.service")
    output = sh("apt-get", "purge", "-y", "andiron", seconds=180)
    with open(BEFORE) as file:
        left = set(files()) - set(json.load(file))
    assert not left, sorted(left)
    assert not glob.glob("/run/andiron*") and not os.path.exists("/var/lib/andiron")
    with open("/proc/mounts") as file:
        assert "andiron" not in file.read()
    assert not sh("getent", "group", "andiron", check=False)
    units = sh("systemctl", "list-units", "--all", "--no-legend", "--plain", "andiron*")
    assert not units.strip(), units
    assert "andirond" not in {open(path).read().strip() for path in glob.glob("/proc/[0-9]*/comm")}
    assert meminfo("Mlocked") < size(), meminfo("Mlocked")
    return output


BOOTS = {
    "install": [install, reload_takes_configuration, watchdog, journal, journal_fields, security,
                prepare_preload],
    "preload": [resident_before_reader, booted_whole, stop_and_start, kill, podman_hook, protected,
                pinned_ram, lease, prepare_unasked, prepare_missing],
    "missing": [missing_model, read_again, purge],
}
