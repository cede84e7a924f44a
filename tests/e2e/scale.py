#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A hundred models of ten files each, and many rounds with one: nothing grows."""
import os

from harness import (MIB, Agent, main, pages, resident, until, write_gguf)

MODELS = 100
FILES = 10
KIB = 1024


def make_models(folder):
    """Folders of FILES small files, each an inode of its own: hard links would be held once."""
    write_gguf(folder / "one", 64 * KIB)
    with open(folder / "one", "rb") as file:
        head, data = file.read(128), file.read()
    text = f'[agent]\nallow_roots = ["{folder.path}"]\n[budget]\nram_headroom = "1GiB"\n'
    for i in range(MODELS):
        os.makedirs(folder / f"m{i}")
        for k in range(FILES):
            with open(folder / f"m{i}/part-{k}.gguf", "wb") as file:
                file.write(head + data)
        text += f'[[model]]\nname = "m{i}"\nsource = "{folder / f"m{i}"}"\npreload = "boot"\n'
    os.sync()
    return text, len(head + data)


def fds(agent):
    return len(os.listdir(f"/proc/{agent.process.pid}/fd"))


def threads(agent):
    return len(os.listdir(f"/proc/{agent.process.pid}/task"))


def all_warm(agent):
    models = agent.get("/v1/models")["models"]
    return len(models) == MODELS and all(
        m["state"] == "warm" and m["tiers"]["page-cache"]["hold"] == "mapped" for m in models)


def a_thousand_files(build, folder):
    text, size = make_models(folder)
    with Agent(build, folder, text) as agent:
        until("all models to be warm", lambda: all_warm(agent), 240)
        status = agent.get("/v1/status")
        assert status["tiers"]["page-cache"]["used_bytes"] == MODELS * FILES * size, status["tiers"]
        assert status["jobs"] == 0 and len(status["models"]) == MODELS
        for model in status["models"]:
            assert model["files"] == FILES and model["bytes"] == FILES * size, model
            assert model["tiers"]["page-cache"]["resident_bytes"] == FILES * size, model
        for i in (0, MODELS // 2, MODELS - 1):
            assert resident(folder / f"m{i}/part-3.gguf") == pages(size)

        def sane(when):
            kept = agent.status_field("RssAnon")
            print(f"{when}: {kept / MIB:.1f} MiB of its own, {fds(agent)} descriptors, "
                  f"{threads(agent)} threads", flush=True)
            assert kept <= 40 * MIB, f"{when}: RssAnon {kept}"
            assert fds(agent) <= MODELS * FILES + 64, f"{when}: {fds(agent)} descriptors"
            assert threads(agent) <= 16, f"{when}: {threads(agent)} threads"
        sane("warm")
        for round_ in range(3):
            agent.configure(text + f"# {round_}\n")
            agent.ctl("reload")
            until("all models to be warm", lambda: all_warm(agent))
        sane("after three reloads")
        # Half of the models go from the configuration: so do their holds.
        agent.configure(text.split(f'[[model]]\nname = "m{MODELS // 2}"')[0])
        agent.ctl("reload")
        until("half of it to be let go of", lambda: agent.get("/v1/status")["tiers"]["page-cache"][
            "used_bytes"] == MODELS // 2 * FILES * size)
        until("half of the models to be gone",
              lambda: len(agent.get("/v1/models")["models"]) == MODELS // 2)
        sane("half of it")
        agent.stop()


def fifty_rounds(build, folder):
    write_gguf(folder / "m.gguf", 4 * MIB)
    text = f"""
[agent]
allow_roots = ["{folder.path}"]
[budget]
ram_headroom = "1GiB"
[[model]]
name = "m"
source = "{folder / 'm.gguf'}"
"""
    with Agent(build, folder, text) as agent:
        def rounds(count):
            for _ in range(count):
                assert agent.call("POST", "/v1/models/m/warm", {"wait": True})[0] == 200
                assert agent.call("POST", "/v1/models/m/drop", {})[0] == 200
        rounds(10)  # what is kept for the next time is there then
        before = fds(agent), agent.status_field("RssAnon")
        rounds(50)
        after = fds(agent), agent.status_field("RssAnon")
        print(f"descriptors {before[0]} -> {after[0]}, own memory {before[1] // KIB} -> "
              f"{after[1] // KIB} KiB", flush=True)
        assert after[0] <= before[0] + 1, (before, after)
        assert after[1] <= before[1] + MIB, (before, after)
        agent.stop()


main([a_thousand_files, fifty_rounds])
