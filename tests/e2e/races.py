#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Several clients warm, drop, cancel, reload and hang up, while files are replaced, cut, punched and
removed and the agent is stopped and woken: nothing may be left of it when all is dropped.

ANDIRON_RACE_SECONDS is how long; with a build under a sanitizer, a minute or more is worth it."""
import os
import random
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

from harness import MIB, Agent, main, make_cold, need_root, until, write_gguf

need_root()

SECONDS = float(os.environ.get("ANDIRON_RACE_SECONDS", "15"))
MODELS = 6
HOLDS = ("cached", "mapped", "locked")


def head(folder):
    return (f'[agent]\nallow_roots = ["{folder.path}"]\n'
            '[budget]\nram = "500MiB"\nram_headroom = "1GiB"\n')


def any_config(folder, dice):
    text = head(folder)
    for i in range(MODELS):
        if dice.random() < 0.15:
            continue
        source = dice.choice([f"m{i}", f"m{i}", f"m{(i + 1) % MODELS}", "link"])
        text += (f'[[model]]\nname = "m{i}"\nsource = "{folder / source}.gguf"\n'
                 f'hold = "{dice.choice(HOLDS)}"\n'
                 f'priority = "{dice.choice(["background", "normal", "critical"])}"\n')
        if dice.random() < 0.3:
            text += f'also = ["{folder / "m"}{(i + 2) % MODELS}.gguf"]\n'
        if dice.random() < 0.3:
            text += f'preload = "{dice.choice(["boot", "never"])}"\n'
        if dice.random() < 0.3:
            text += 'keep_alive = "1s"\n'
    return text


def stream_and_perhaps_hang_up(agent, name, dice):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(60)
    client.connect(agent.socket)
    client.sendall(f"POST /v1/models/{name}/warm HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                   "Accept: application/x-ndjson\r\nContent-Length: 2\r\n\r\n{}".encode())
    if dice.random() < 0.5:
        while client.recv(65536):
            pass
    client.close()


def one_call(agent, folder, dice):
    """Gives what went wrong: an agent that fails inside, or that does not answer."""
    name = f"m{dice.randrange(MODELS)}"
    act = dice.choice(["warm", "warm", "stream", "drop", "keep", "cancel", "path", "get", "status"])
    body = {}
    if act == "warm":
        call = ("POST", f"/v1/models/{name}/warm",
                {"hold": dice.choice(HOLDS), "wait": dice.random() < 0.5})
    elif act == "stream":
        return stream_and_perhaps_hang_up(agent, name, dice)
    elif act in ("drop", "keep"):
        call = ("POST", f"/v1/models/{name}/drop", {"keep_pages": act == "keep"})
    elif act == "cancel":
        jobs = [job["id"] for job in agent.get("/v1/jobs")["jobs"]]
        if not jobs:
            return None
        call = ("DELETE", f"/v1/jobs/{max(jobs)}")
    elif act == "path":
        source = folder / dice.choice(["adhoc0.gguf", "adhoc1.gguf", "hard.gguf", "adhoc*.gguf"])
        call = ("POST", "/v1/warm", {"source": source, "hold": dice.choice(HOLDS), "wait": True})
    else:
        call = ("GET", f"/v1/models/{name}" if act == "get" else "/v1/status")
    status, body = agent.call(*call)
    return None if status < 500 else (call, status, body)


def one_mischief(agent, folder, dice):
    path = folder / f"m{dice.randrange(MODELS)}.gguf"
    act = dice.choice(["replace", "cut", "punch", "remove", "reload", "hup", "cold", "write", "stop",
                       "adhoc", "fifo"])
    if act == "replace":
        write_gguf(path + ".new", dice.choice([16, 48]) * MIB, dice.randrange(1 << 20))
        os.rename(path + ".new", path)
    elif act == "cut":
        os.truncate(path, dice.choice([0, 5000, MIB, 40 * MIB]))
    elif act == "punch":
        subprocess.run(["fallocate", "-p", "-o", "1M", "-l", "8M", path], check=False)
    elif act in ("remove", "fifo"):
        os.unlink(path)
        if act == "fifo":
            os.mkfifo(path)
        time.sleep(dice.random() / 10)  # so that the agent may see it
        if act == "fifo":
            os.unlink(path)
        write_gguf(path, 48 * MIB)
    elif act == "reload":
        agent.configure(any_config(folder, dice) + dice.choice(["", "", "", "bad ="]))
        agent.call("POST", "/v1/reload")
    elif act == "hup":
        agent.process.send_signal(signal.SIGHUP)
    elif act == "cold":
        make_cold(path)
    elif act == "write":
        with open(path, "r+b") as file:
            file.seek(MIB)
            file.write(b"z" * 4096)
    elif act == "stop":
        agent.process.send_signal(signal.SIGSTOP)
        time.sleep(dice.random() / 2)
        agent.process.send_signal(signal.SIGCONT)
    else:
        write_gguf(folder / f"adhoc{dice.randrange(2)}.gguf", 16 * MIB, dice.randrange(1 << 20))


def run_race(agent, folder):
    end = time.monotonic() + SECONDS
    wrong = []

    def repeat(act, seed):
        dice = random.Random(seed)
        while time.monotonic() < end and agent.process.poll() is None:
            try:
                trouble = act(agent, folder, dice)
                if trouble is not None:
                    wrong.append(trouble)
            except Exception as failure:  # told by the main thread
                wrong.append((act.__name__, repr(failure)))

    threads = [threading.Thread(target=repeat, args=(one_call, seed)) for seed in range(5)]
    threads.append(threading.Thread(target=repeat, args=(one_mischief, 99)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert agent.process.poll() is None, agent.process.returncode
    assert not wrong, wrong[:5]


def of_folder(agent, folder):
    """Mappings and descriptors of model files that the agent has."""
    found = []
    with open(f"/proc/{agent.process.pid}/maps") as maps:
        found += [line for line in maps if folder.path in line and ".gguf" in line]
    for fd in os.listdir(f"/proc/{agent.process.pid}/fd"):
        target = os.readlink(f"/proc/{agent.process.pid}/fd/{fd}")
        if folder.path in target and ".gguf" in target:
            found.append(target)
    return found


def nothing_is_left_of_a_race(build, folder):
    for i in range(MODELS):
        write_gguf(folder / f"m{i}.gguf", 48 * MIB, i)
    for i in range(2):
        write_gguf(folder / f"adhoc{i}.gguf", 16 * MIB, i)
    os.link(folder / "m0.gguf", folder / "hard.gguf")
    os.symlink("m1.gguf", folder / "link.gguf")
    with Agent(build, folder, any_config(folder, random.Random(3))) as agent:
        run_race(agent, folder)

        # It still does its work.
        for i in range(MODELS):
            path = folder / f"m{i}.gguf"
            if os.path.lexists(path):
                os.unlink(path)
            write_gguf(path, 48 * MIB, i)
        agent.configure(head(folder) + "".join(
            f'[[model]]\nname = "m{i}"\nsource = "{folder / "m"}{i}.gguf"\n'
            for i in range(MODELS)))
        agent.ctl("reload")
        for i in range(MODELS):
            def warm(name=f"m{i}"):
                return agent.call("POST", f"/v1/models/{name}/warm",
                                  {"wait": True, "hold": "locked"})[0] == 200
            until(f"m{i} to be warm", warm)

        for model in agent.get("/v1/models")["models"]:
            agent.call("POST", "/v1/models/" + urllib.parse.quote(model["name"], safe="") + "/drop",
                       {})
        until("the budget to be free", lambda: agent.get(
            "/v1/status")["tiers"]["page-cache"]["used_bytes"] == 0)
        until("nothing to be mapped or open", lambda: not of_folder(agent, folder))
        assert agent.status_field("VmLck") == 0
        assert not [job for job in agent.get("/v1/jobs")["jobs"]
                    if job["state"] in ("resolving", "running")]
        agent.stop(60)


main([nothing_is_left_of_a_race])
