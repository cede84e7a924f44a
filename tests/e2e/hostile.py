#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a careless or hostile surrounding does to the agent: files that are none, clients that ask
and hang up, a socket that is removed, a state folder without room. It has to say no, or to recover."""
import json
import os
import shutil
import signal
import socket
import subprocess

from harness import MIB, Agent, main, make_cold, need_root, until, write_gguf

need_root()


def config(folder, extra="", models=("m",), agent=""):
    text = f"""
[agent]
allow_roots = ["{folder.path}", "/proc", "/sys", "/dev"]
{agent}
[budget]
ram_headroom = "1GiB"
"""
    for name in models:
        text += f'[[model]]\nname = "{name}"\nsource = "{folder / name}.gguf"\n'
    return text + extra


def used(agent):
    return agent.get("/v1/status")["tiers"]["page-cache"]["used_bytes"]


def refusal(agent, source):
    status, body = agent.call("POST", "/v1/warm", {"source": source, "wait": True})
    return "warm" if status == 200 else body["error"]["code"]


def ask_and_hang_up(agent, path, body):
    client = socket.socket(socket.AF_UNIX)
    client.connect(agent.socket)
    text = json.dumps(body)
    client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}"
                   .encode())
    client.close()


def what_is_no_model_is_refused(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    open(folder / "empty.bin", "w").close()
    open(folder / "empty.gguf", "w").close()
    os.mkfifo(folder / "fifo.gguf")
    os.symlink("loop2", folder / "loop1")
    os.symlink("loop1", folder / "loop2")
    with open(folder / "sparse.bin", "w") as file:
        file.truncate(10 << 40)
    os.makedirs(folder / "many")
    for i in range(5000):
        open(folder / f"many/{i}.bin", "w").close()
    with Agent(build, folder, config(folder)) as agent:
        for source, code in ((folder / "empty.bin", "bad_format"),
                             (folder / "empty.gguf", "truncated"),
                             (folder / "fifo.gguf", "not_regular_file"),
                             (folder / "loop1", "symlink_loop"),
                             (folder / "sparse.bin", "no_budget"),
                             (folder / "many", "too_large"),
                             ("/proc/kmsg", "not_regular_file"),
                             ("/proc/meminfo", "not_regular_file"),
                             ("/sys/kernel/notes", "not_regular_file"),
                             ("/dev/zero", "not_regular_file"),
                             ("/etc/passwd", "outside_roots")):
            got = refusal(agent, source)
            assert got == code, (source, got)
        assert used(agent) == 0
        agent.stop()


def sizes_that_sum_past_64_bits_are_refused(build, folder):
    """Only a file system in memory has files so large everywhere."""
    write_gguf(folder / "m.gguf", MIB)
    place = f"/dev/shm/andiron-hostile-{os.getpid()}"
    os.makedirs(place)
    try:
        largest = 2**63 - 1 - 4095
        for name, size in (("1.bin", largest), ("2.bin", largest), ("3.bin", 16384)):
            with open(f"{place}/{name}", "w") as file:
                file.truncate(size)
        with Agent(build, folder, config(folder)) as agent:
            code = refusal(agent, place)
            assert code == "outside_roots" or code == "too_large", code
            agent.configure(config(folder).replace('"/dev"', f'"{place}"'))
            agent.ctl("reload")
            assert refusal(agent, place) == "too_large"
            agent.stop()
    finally:
        shutil.rmtree(place)


def odd_names_are_only_names(build, folder):
    names = ["new\nline", "esc\x1b[31mred\x07", "x" * 250, "sp ace %2f", "-dash", "[glob]*", "ü☃"]
    write_gguf(folder / "m.gguf", MIB)
    with Agent(build, folder, config(folder)) as agent:
        for name in names:
            path = folder / (name + ".gguf")
            write_gguf(path, MIB)
            shown = agent.ctl("warm", "--", path).stdout
            assert "\x1b" not in shown and shown.count("\n") == 1, shown
            agent.ctl("drop", "--", path)
        assert "\x1b" not in agent.ctl("status").stdout
        log = agent.log().rstrip("\n").split("\n")
        assert "\x1b" not in "".join(log) and all(line.startswith("2") for line in log), log
        assert used(agent) == 0
        agent.stop()


def who_asks_for_much_holds_nobody_up(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    os.makedirs(folder / "many")
    for i in range(3000):
        with open(folder / f"many/{i}.bin", "w") as file:
            file.write("x")
    with Agent(build, folder, config(folder)) as agent:
        text = json.dumps({"source": folder / "many"})
        clients = []
        for _ in range(64):
            clients.append(socket.socket(socket.AF_UNIX))
            clients[-1].connect(agent.socket)
            clients[-1].sendall(b"POST /v1/resolve HTTP/1.1\r\nHost: x\r\n"
                                + f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
        # Each takes the one lane for such work a second or so; a warm would wait for all of them.
        refused = [client for client in clients[32:] if b" 503 " in client.recv(15)]
        assert len(refused) == 32, len(refused)
        for client in clients:
            client.close()
        for _ in range(200):
            ask_and_hang_up(agent, "/v1/reload", {})
            os.kill(agent.process.pid, signal.SIGHUP)
        until("it to answer", agent.answers)
        agent.stop()


def events_of_long_names_can_be_read(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    with Agent(build, folder, config(folder)) as agent:
        for i in range(300):
            refusal(agent, folder.path + ("/" + "\x01" * 250) * 12 + str(i))
        events = agent.events()
        assert events[-1]["type"] == "job.failed" and events[-1]["model"].endswith("299"), events[-1]
        agent.stop()


def a_warm_after_a_cancel_is_a_new_one(build, folder):
    write_gguf(folder / "m.gguf", 512 * MIB)
    slow = '[stream]\nmax_bandwidth = "16MB"\n'
    with Agent(build, folder, config(folder, slow)) as agent:
        make_cold(folder / "m.gguf")
        _, job = agent.call("POST", "/v1/models/m/warm", {})
        until("it to read", lambda: [j for j in agent.get("/v1/jobs")["jobs"]
                                     if j["id"] == job["id"] and j["state"] == "running"])
        agent.call("DELETE", f"/v1/jobs/{job['id']}")
        status, again = agent.call("POST", "/v1/models/m/warm", {})
        assert status == 202 and again["id"] != job["id"], (status, again)
        assert "error" not in again, again
        agent.ctl("drop", "m")
        agent.stop()


def a_removed_socket_comes_back(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    with Agent(build, folder, config(folder)) as agent:
        os.unlink(agent.socket)
        until("the socket to be back", agent.answers)
        shutil.rmtree(agent.run_dir)
        until("the folder to be back", agent.answers)
        until("its lock too", lambda: os.path.exists(os.path.join(agent.run_dir, "andirond.lock")))
        second = subprocess.run(
            [os.path.join(agent.bin, "andirond"), "--config", agent.config_path, "--runtime-dir",
             agent.run_dir, "--state-dir", agent.state_dir], capture_output=True, text=True)
        assert second.returncode == 1 and "already_running" in second.stderr, second
        agent.ctl("warm", "m")
        agent.stop()
        assert not os.path.exists(agent.socket)


def a_full_state_folder_is_tried_again(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    write_gguf(folder / "n.gguf", MIB)
    os.makedirs(folder / "state")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", folder / "state"], check=True)
    try:
        with Agent(build, folder, config(folder, models=("m", "n"))) as agent:
            with open(folder / "state/fill", "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    pass
            agent.ctl("warm", "m")
            agent.ctl("warm", "n")
            until("the trouble to be said", lambda: "cannot be written down" in agent.log())
            for _ in range(3):  # what is under way now, is over when these are
                agent.ctl("resolve", folder / "m.gguf")
            os.unlink(folder / "state/fill")
            until("it to be written after all", lambda: os.path.exists(
                folder / "state/wanted.json"))
            with open(folder / "state/wanted.json") as file:
                assert '"n"' in file.read()
            assert agent.log().count("cannot be written down") == 1, agent.log()
            agent.stop()
    finally:
        subprocess.run(["umount", "-l", folder / "state"], check=False)


def a_dry_run_holds_nothing(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    with Agent(build, folder, config(folder)) as agent:
        agent.ctl("warm", "m", "--hold", "locked")
        assert used(agent) > 0
        agent.configure(config(folder, agent="dry_run = true"))
        agent.ctl("reload")
        until("all to be let go of", lambda: used(agent) == 0)
        until("its lock too", lambda: agent.status_field("VmLck") == 0)
        agent.configure(config(folder))
        agent.ctl("reload")
        until("it to be held again", lambda: used(agent) > 0)
        agent.stop()


def a_source_that_changes_while_it_is_resolved(build, folder):
    """Many reloads, each with another source: what is held at last is what the last one said."""
    for name in ("m.gguf", "other.gguf"):
        write_gguf(folder / name, MIB)
    os.makedirs(folder / "many")
    write_gguf(folder / "many/w.gguf", MIB)
    for i in range(3000):
        open(folder / f"many/{i}.gguf.part", "w").close()
    boot = 'preload = "boot"\n'
    with Agent(build, folder, config(folder, boot)) as agent:
        for _ in range(5):
            for source in ("many", "other.gguf"):
                agent.configure(config(folder, boot).replace(folder / "m.gguf", folder / source))
                agent.ctl("reload")
        until("the last source to be held", lambda: (
            agent.model("m")["state"] == "warm" and used(agent) > 0))
        files = agent.call("POST", "/v1/resolve", {"source": folder / "other.gguf"})[1]["files"]
        held = [line for line in open(f"/proc/{agent.process.pid}/maps")
                if line.rstrip().endswith(files[0]["path"])]
        assert held, open(f"/proc/{agent.process.pid}/maps").read()
        agent.stop()


main([what_is_no_model_is_refused, sizes_that_sum_past_64_bits_are_refused,
      odd_names_are_only_names, who_asks_for_much_holds_nobody_up,
      events_of_long_names_can_be_read, a_warm_after_a_cancel_is_a_new_one,
      a_removed_socket_comes_back, a_full_state_folder_is_tried_again, a_dry_run_holds_nothing,
      a_source_that_changes_while_it_is_resolved])
