#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""From nothing to "my model stays warm": setup looks at a machine made up in a mount namespace (a
Docker Ollama volume, a user's own Ollama, a Hugging Face cache, a folder of GGUF files), what it
writes compiles, and the agent that loads it warms the right files."""
import hashlib
import json
import os
import subprocess

from harness import MIB, Agent, main, make_cold, need_root, pages, resident, until, write_gguf


class Machine:
    """/home, /var/lib/docker and /srv of a machine, seen by what runs in its mount namespace."""

    def __init__(self, folder):
        self.folder = folder
        binds = []
        for where in ("/home", "/var/lib", "/srv"):
            os.makedirs(self.at(where), exist_ok=True)
            binds.append(f"mount --bind '{self.at(where)}' {where}")
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             " && ".join(binds) + " && echo ready && exec sleep 600"],
            stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "ready\n"
        self.enter = ["nsenter", "--target", str(self.holder.pid), "--mount", "--"]

    def at(self, path):
        """Where a path of the machine lies outside of its namespace."""
        return self.folder / ("machine" + path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.wait()


def ollama_model(store, name, tag, bytes_of_data, seed):
    """A manifest and its blob, as a pull leaves them; gives the blob's path."""
    os.makedirs(f"{store}/blobs")
    os.makedirs(f"{store}/manifests/registry.ollama.ai/library/{name}")
    write_gguf(f"{store}/new", bytes_of_data, seed)
    with open(f"{store}/new", "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    blob = f"{store}/blobs/sha256-{digest}"
    os.rename(f"{store}/new", blob)
    with open(f"{store}/manifests/registry.ollama.ai/library/{name}/{tag}", "w") as file:
        json.dump({"schemaVersion": 2,
                   "layers": [{"mediaType": "application/vnd.ollama.image.model",
                               "digest": f"sha256:{digest}", "size": os.path.getsize(blob)}]}, file)
    return blob


def hugging_face_model(hub, organisation, name, bytes_of_data, seed):
    base = f"{hub}/models--{organisation}--{name}"
    for part in ("blobs", "refs", "snapshots/0123abcd"):
        os.makedirs(f"{base}/{part}")
    write_gguf(f"{base}/blobs/feed", bytes_of_data, seed)
    os.symlink("../../blobs/feed", f"{base}/snapshots/0123abcd/model.gguf")
    with open(f"{base}/refs/main", "w") as file:
        file.write("0123abcd")
    return f"{base}/blobs/feed"


def from_nothing_to_warm(build, folder):
    need_root()
    with Machine(folder) as machine:
        files = {
            "docker": ollama_model(machine.at("/var/lib/docker/volumes/ollama/_data/models"),
                                   "qwen3", "4b", 5 * MIB, 1),
            "user": ollama_model(machine.at("/home/alice/.ollama/models"), "llama3.2", "3b",
                                 6 * MIB, 2),
            "hub": hugging_face_model(machine.at("/home/alice/.cache/huggingface/hub"), "google",
                                      "gemma", 7 * MIB, 3),
        }
        os.makedirs(machine.at("/srv/models"))
        files["folder"] = machine.at("/srv/models/coder.gguf")
        write_gguf(files["folder"], 8 * MIB, 4)
        unwanted = machine.at("/srv/models/never-used.gguf")
        write_gguf(unwanted, 4 * MIB, 5)

        ctl = [*machine.enter, os.path.join(build, "bin/andironctl"), "--socket", folder / "none"]
        run = lambda *words: subprocess.run([*ctl, *words], check=True, capture_output=True,
                                            text=True, stdin=subprocess.DEVNULL).stdout
        found = json.loads(run("--json", "setup"))
        names = {model["bytes"]: model["name"] for model in found["models"]}
        wanted = [names[os.path.getsize(path)] for path in files.values()]
        # Looking writes nothing.
        assert found["written"] is None and not os.path.exists("/etc/andiron/andiron.toml")
        # Of its own it proposes some, never everything.
        chosen = [model for model in found["models"] if model["chosen"]]
        assert 0 < len(chosen) < len(found["models"]), found["models"]

        config = folder / "andiron.toml"
        said = run("setup", "--models", ",".join(wanted), "--write", "--output", config)
        assert config in said, said
        for path in [*files.values(), unwanted]:
            make_cold(path)
        agent = Agent(build, folder, open(config).read(), wrap=machine.enter)
        with agent:
            until("all to be warm", lambda: all(
                model["state"] == "warm" for model in agent.get("/v1/models")["models"]))
            models = agent.get("/v1/models")["models"]
            assert sorted(model["name"] for model in models) == sorted(wanted), models
            for path in files.values():
                assert resident(path) == pages(os.path.getsize(path)), path
            assert resident(unwanted) == 0
            # Run again beside the agent, it keeps what was there and has the agent take the new.
            said = subprocess.run(
                [*machine.enter, os.path.join(build, "bin/andironctl"), "--socket", agent.socket,
                 "setup", "--models", wanted[0], "--write", "--output", config],
                check=True, capture_output=True, text=True).stdout
            assert os.path.exists(config + ".bak-1"), said
            until("the agent to have the new one",
                  lambda: [m["name"] for m in agent.get("/v1/models")["models"]] == wanted[:1])
            agent.stop()


main([from_nothing_to_warm])
