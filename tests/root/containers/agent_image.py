#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The image of the Containerfile, run as the compose files run it by a real dockerd: it warms models
of a volume for everybody, says what it lacks, comes back with what it held, and a package's agent on
the same host and it leave each other alone."""
import fcntl
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(1, os.path.join(HERE, "../../vm"))
import compose  # noqa: E402
import image as debian  # noqa: E402
from dockerd import Dockerd  # noqa: E402  (finds the harness too)
from harness import (MIB, Folder, make_cold, mincore_resident, pages, resident, skip,  # noqa: E402
                     until, write_gguf)
from machine_agent import MachineAgent, need_none  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
ROOT = os.path.normpath(os.path.join(HERE, "../../.."))
PACKAGING = os.path.join(ROOT, "packaging")
BASE = "debian:12-slim"  # by this name no registry is asked: it is there already
SIZE = 64 * MIB  # past every default of RLIMIT_MEMLOCK
CAP_SYS_RESOURCE = 24


def base_archive():
    """The least Debian with apt, as a tar; made once, and again when this file changes."""
    folder = os.path.join(BUILD, "agent-image")
    os.makedirs(folder, exist_ok=True)
    archive = os.path.join(folder, "debian.tar")
    with open(os.path.join(folder, "lock"), "w") as lock, open(__file__, "rb") as source:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = hashlib.sha256(source.read()).hexdigest()
        stamp_path = archive + ".stamp"
        if os.path.exists(stamp_path) and open(stamp_path).read() == stamp:
            return archive
        if shutil.which("mmdebstrap") is None:
            skip("needs mmdebstrap: scripts/install-packages.sh docker")
        uri = debian.mirror()
        try:
            debian.run(["mmdebstrap", "--mode=root", "--variant=apt",
                        *(f"--aptopt={line}" for line in debian.apt_options()),
                        *(f"--dpkgopt=path-exclude={path}" for path in debian.LEFT_OUT),
                        debian.SUITE, archive, "-"], input=debian.source_line(uri, debian.SUITE))
        except RuntimeError as error:
            skip(f"no Debian comes from {uri}: {error}")
        with open(stamp_path, "w") as file:
            file.write(stamp)
    return archive


def sources(folder):
    """The tree as a clone has it, with the package that was built from it."""
    context = folder / "sources"
    shutil.copytree(ROOT, context, symlinks=True,
                    ignore=lambda path, names: {"build", ".git"} if path == ROOT else set())
    (package,) = glob.glob(os.path.join(BUILD, "package/andiron_*.deb"))
    os.makedirs(context + "/build/release")
    shutil.copy(package, context + "/build/release")
    return context, "build/release/" + os.path.basename(package)


def build_image(dockerd, folder):
    dockerd.docker("import", base_archive(), BASE)
    context, package = sources(folder)
    built = dockerd.docker("build", "--network", "host", "--file", context + "/packaging/Containerfile",
                           "--tag", "andiron", "--build-arg", "PACKAGE=" + package, context,
                           check=False, timeout=300)
    shutil.rmtree(context)
    if "Temporary failure resolving" in built.stdout or "Unable to fetch" in built.stderr:
        skip("apt in the image finds no mirror:\n" + built.stdout[-500:])
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    size = int(dockerd.docker("image", "inspect", "--format", "{{.Size}}", "andiron").stdout)
    base = int(dockerd.docker("image", "inspect", "--format", "{{.Size}}", BASE).stdout)
    print(f"image: {size // MIB} MiB, {(size - base) // MIB} MiB of them above its base")
    assert size - base < 16 * MIB, "more than two programs and a few libraries"
    said = dockerd.docker("run", "--rm", "--network", "none", "andiron", "--version").stdout
    assert said.startswith("andirond "), said


class Place:
    """What stands for the host's folders that the compose file names."""

    def __init__(self, dockerd, folder):
        self.dockerd = dockerd
        self.etc, self.run = folder / "etc", folder / "run"
        os.makedirs(self.etc)
        os.makedirs(self.run)
        dockerd.docker("volume", "create", "models")
        self.models = dockerd.docker("volume", "inspect", "--format", "{{.Mountpoint}}",
                                     "models").stdout.strip()
        self.path = os.path.join(self.models, "assistant.gguf")
        write_gguf(self.path, SIZE)
        make_cold(self.path)
        self.service = compose.load(PACKAGING + "/compose.nas.yaml")["services"]["andiron"]
        # The file's own configuration, in less memory than it asks for.
        with open(self.etc + "/andiron.toml", "w") as file:
            file.write('[budget]\nram_headroom = "64MiB"\n' +
                       compose.configuration(PACKAGING + "/compose.nas.yaml"))

    def options(self, **changes):
        """As the compose file has them, on this place, with changes by its keys; None: without it."""
        service = {**self.service, **changes}
        places = {"./andiron": self.etc, "/run/andiron": self.run, "/srv/models": "models",
                  "/var/run/docker.sock": self.dockerd.socket}
        service["volumes"] = [":".join([places.get(parts[0], parts[0]), *parts[1:]])
                              for parts in (each.split(":") for each in service["volumes"])]
        with open("/proc/self/status") as file:
            allowed = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff"))
        if not allowed >> CAP_SYS_RESOURCE & 1:  # this machine may not; the line is checked as text
            service["oom_score_adj"] = None
        return compose.run_options({key: value for key, value in service.items() if value is not None})

    def start(self, **changes):
        self.dockerd.docker("run", "--detach", *self.options(**changes), "andiron")
        self.until_answers()

    def until_answers(self, name="andiron"):
        def answers():
            if self.dockerd.docker("exec", name, "andironctl", "status", check=False).returncode == 0:
                return True
            state = self.dockerd.docker("inspect", "--format", "{{.State.Status}}", name).stdout
            assert state.strip() == "running", self.logs(name)
            return False

        until("the agent in the container to answer", answers)

    def logs(self, name="andiron"):
        done = self.dockerd.docker("logs", name)
        return done.stdout + done.stderr

    def remove(self, name="andiron"):
        self.dockerd.docker("rm", "--force", "--volumes", name)

    def ctl(self, *arguments, name="andiron"):
        return self.dockerd.docker("exec", name, "andironctl", *arguments).stdout

    def cache(self, model="assistant", name="andiron"):
        models = json.loads(self.ctl("--json", "status", name=name))["models"]
        return next(each["tiers"]["page-cache"] for each in models if each["name"] == model)

    def until_hold(self, hold, model="assistant", name="andiron"):
        until(f"{model} to be held as {hold} in the container",
              lambda: self.cache(model, name)["hold"] == hold)

    def capability(self, capability, name="andiron"):
        return until("doctor to know all", lambda: next(
            (each for each in json.loads(self.ctl("--json", "doctor", name=name))["capabilities"]
             if each["name"] == capability), None))


def it_warms_for_everybody(place):
    size = os.path.getsize(place.path)
    place.start()
    place.until_hold("locked")
    assert place.cache()["locked_bytes"] == size, place.cache()
    # Asked of the host, by tools of others.
    assert resident(place.path) == mincore_resident(place.path) == pages(size)
    until("Docker to be followed", lambda: place.capability("docker")["state"] == "on")
    # Its runtime finds them in memory each time that it starts.
    place.ctl("drop", "assistant")
    assert resident(place.path) == 0
    place.dockerd.run("llama", "--volume", "models:/srv/models:ro",
                      command=("/bin/busybox", "sleep", "100000"))
    place.until_hold("locked")
    assert resident(place.path) == pages(size)
    place.dockerd.docker("rm", "--force", "llama")
    # The socket lies on the host, for root.
    done = subprocess.run([os.path.join(BUILD, "bin/andironctl"), "--socket",
                           place.run + "/control.sock", "status"], capture_output=True, text=True)
    assert done.returncode == 0 and "assistant" in done.stdout, done


def it_comes_back_with_what_it_held(place):
    """Also with what somebody asked for, and the configuration does not name."""
    other = os.path.join(place.models, "other.gguf")
    write_gguf(other, 8 * MIB, seed=2)
    place.ctl("warm", "/srv/models/other.gguf")
    place.dockerd.docker("stop", "andiron")
    state = place.dockerd.docker("inspect", "--format", "{{.State.ExitCode}}", "andiron").stdout
    assert int(state) == 0, place.logs()
    for path in (place.path, other):
        make_cold(path)  # nobody holds it
        assert resident(path) == 0, path
    place.dockerd.docker("start", "andiron")
    place.until_answers()
    place.until_hold("locked")
    place.until_hold("mapped", model="/srv/models/other.gguf")
    for path in (place.path, other):
        assert resident(path) == pages(os.path.getsize(path)), path
    place.remove()


def it_says_what_it_lacks(place):
    size = os.path.getsize(place.path)
    place.start()
    place.until_hold("locked")
    assert place.capability("mlock")["state"] == "on", place.capability("mlock")
    assert place.capability("mincore")["state"] == "on", place.capability("mincore")
    place.remove()
    fewer = [cap for cap in place.service["cap_add"] if cap not in ("IPC_LOCK", "FOWNER")]
    # Docker's own default, which is less than the model.
    place.start(cap_add=fewer)
    place.until_hold("mapped")
    found = place.capability("mlock")
    assert found["state"] != "on" and "IPC_LOCK" in found["remedy"], found
    found = place.capability("mincore")
    assert found["state"] == "degraded" and "FOWNER" in found["remedy"], found
    assert "lock_limit" in place.ctl("explain", "assistant")
    assert resident(place.path) == pages(size)
    place.remove()


def it_and_the_hosts_agent_leave_each_other_alone(place, build):
    config = (f'[budget]\nram_headroom = "64MiB"\n[watch]\ndocker = "off"\n'
              f'[[model]]\nname = "m"\nsource = "{place.path}"\nhold = "locked"\npreload = "boot"\n')
    with Folder() as folder:
        with MachineAgent(build, folder, config) as host:
            until("the host's agent to hold", lambda: host.hold() == "locked")
            # With the host's processes in sight, who comes second caches only.
            place.start()
            until("the container's to be warm",
                  lambda: place.cache()["resident_bytes"] == os.path.getsize(place.path))
            found = place.capability("single-agent")
            assert found["state"] == "degraded", found
            assert f"pid {host.pid()} " in found["reason"], (found, host.pid())
            assert place.cache()["hold"] == "cached" and host.hold() == "locked"
            # The first has gone: the container's takes over, and the host's is the second now.
            host.stop()
            place.until_hold("locked")
            host.start()
            host.until_state("m", "warm")
            name = place.dockerd.docker("inspect", "--format", "{{.Id}}", "andiron").stdout[:12]
            found = host.single()
            assert found["state"] == "degraded", found
            assert "container " + name in found["reason"] and name in found["remedy"], (found, name)
            assert host.hold() == "cached"
            place.dockerd.docker("stop", "andiron")
            until("the host's to hold again", lambda: host.hold() == "locked")
            place.remove()
            # A container that sees only itself cannot know, so the host's leaves it to it.
            place.start(pid=None)
            place.until_hold("locked")
            until("the host's to let go", lambda: host.hold() == "cached")
            assert "cannot see" in host.single()["reason"], host.single()
            found = place.capability("single-agent")
            assert found["state"] == "degraded" and "--pid=host" in found["remedy"], found
            # Two that share /run/andiron: the second does not start, and says why.
            second = place.dockerd.docker(
                "run", *place.options(container_name="second", pid=None, restart="no"), "andiron",
                check=False)
            assert second.returncode == 1, second
            assert "another andirond owns /run/andiron" in second.stderr, second
            assert resident(place.path) == pages(os.path.getsize(place.path))
            place.remove()
            until("the host's to hold again", lambda: host.hold() == "locked")
            host.stop()


def the_compose_files_are_sound(folder):
    for name in ("compose.nas.yaml", "compose.pinned.yaml", "compose.runtime.yaml"):
        path = os.path.join(PACKAGING, name)
        compose.check(compose.load(path))
        with open(folder / "snippet.toml", "w") as file:
            file.write(compose.configuration(path))
        done = subprocess.run([os.path.join(BUILD, "bin/andirond"), "--check-config", "--config",
                               folder / "snippet.toml"], capture_output=True, text=True)
        assert done.returncode == 0 and "0 models" not in done.stdout, (name, done)
        known = subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0
        if known:
            done = subprocess.run(["docker", "compose", "--file", path, "config", "--quiet"],
                                  capture_output=True, text=True)
            assert done.returncode == 0, done
        print(f"{name}: sound" + ("" if known else ", though there is no docker compose to ask"))


need_none()
try:
    import yaml  # noqa: F401
except ImportError:
    skip("needs python3-yaml: scripts/install-packages.sh test")
with Folder() as work:
    the_compose_files_are_sound(work)
    with Dockerd(work) as daemon:
        build_image(daemon, work)
        here = Place(daemon, work)
        for check in (it_warms_for_everybody, it_comes_back_with_what_it_held, it_says_what_it_lacks):
            print(f"-- {check.__name__}", flush=True)
            check(here)
        print("-- it_and_the_hosts_agent_leave_each_other_alone", flush=True)
        it_and_the_hosts_agent_leave_each_other_alone(here, BUILD)
print("all passed")
