#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""With the capabilities of andirond.service and no more, the agent does all that it does as root."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../e2e"))
from harness import (MIB, Agent, confined, main, make_cold, need_root, pages, unit_capabilities,
                     until, write_gguf)

NOBODY = 65534
GROUP = 64999


def with_group(folder):
    """A machine with group andiron, as far as the agent sees."""
    groups = folder / "group"
    shutil.copy("/etc/group", groups)
    with open(groups, "a") as file:
        file.write(f"andiron:x:{GROUP}:\n")
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c",
            'mount --bind "$0" /etc/group && exec "$@"', groups]


def belongs_to_nobody(folder, path):
    os.chown(path, NOBODY, NOBODY)
    os.chmod(path, 0o600)
    os.chown(folder, NOBODY, NOBODY)
    os.chmod(folder, 0o700)


def holds_what_is_closed_to_others(build, folder):
    home = folder / "home"
    os.mkdir(home)
    path = os.path.join(home, "m.gguf")
    write_gguf(path, 8 * MIB)
    belongs_to_nobody(home, path)
    make_cold(path)
    config = (f'[agent]\nallow_roots = ["{home}"]\n'
              f'[[model]]\nname = "m"\nsource = "{path}"\nhold = "locked"\npreload = "boot"\n')
    with Agent(build, folder, config, wrap=with_group(folder) + confined()) as agent:
        made = os.stat(agent.socket)
        assert made.st_gid == GROUP and made.st_mode & 0o777 == 0o660, made
        with open(f"/proc/{agent.process.pid}/status") as file:
            allowed = re.search(r"^CapEff:\s*(\w+)", file.read(), re.MULTILINE).group(1)
        assert bin(int(allowed, 16)).count("1") == len(unit_capabilities()), allowed
        cache = agent.until_state("m", "warm")["tiers"]["page-cache"]
        assert cache["resident_bytes"] == cache["locked_bytes"] == os.path.getsize(path), cache
        assert agent.smaps_locked(path) == pages(os.path.getsize(path))
        agent.ctl("drop", "m")
        agent.ctl("warm", path)
        found = {c["name"]: c for c in until(
            "doctor to have looked", lambda: agent.get("/v1/doctor")["capabilities"])}
        for name in ("mincore", "mlock", "direct-io", "populate-read"):
            if name in found:
                assert found[name]["state"] == "on", found[name]
        agent.stop()


def finds_the_store_of_a_server_of_somebody_else(build, folder):
    store = folder / "store"
    os.makedirs(f"{store}/blobs")
    os.makedirs(f"{store}/manifests/registry.ollama.ai/library/tiny")
    write_gguf(f"{store}/new", MIB)
    with open(f"{store}/new", "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    blob = f"{store}/blobs/sha256-{digest}"
    os.rename(f"{store}/new", blob)
    with open(f"{store}/manifests/registry.ollama.ai/library/tiny/1b", "w") as file:
        json.dump({"schemaVersion": 2,
                   "layers": [{"mediaType": "application/vnd.ollama.image.model",
                               "digest": f"sha256:{digest}", "size": os.path.getsize(blob)}]}, file)
    belongs_to_nobody(store, blob)
    # A program called "ollama", as far as the kernel knows.
    server = folder / "ollama"
    shutil.copy(shutil.which("sleep"), server)
    os.chmod(folder.path, 0o755)
    with subprocess.Popen([server, "600"], user=NOBODY, group=NOBODY, extra_groups=[],
                          env={"OLLAMA_MODELS": store}) as process:
        try:
            with Agent(build, folder, '[[model]]\nname = "t"\nsource = "ollama:tiny:1b"\n',
                       wrap=confined()) as agent:
                agent.ctl("warm", "t")
                agent.stop()
        finally:
            process.kill()


need_root()
if shutil.which("setpriv") is None:
    print("needs setpriv")
    sys.exit(77)
main([holds_what_is_closed_to_others, finds_the_store_of_a_server_of_somebody_else])
