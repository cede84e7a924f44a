#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What units order themselves after: `andironctl warm` with a deadline, for one model and for all
that are loaded at boot, also before the agent is there."""
import json
import os

from harness import MIB, Agent, main, make_cold, pages, resident, until, write_gguf

NANOSLEEP = "230 "  # clock_nanosleep(2) on x86-64, as /proc/PID/syscall has it


def model(name, path, preload='"boot"'):
    return f'[[model]]\nname = "{name}"\nsource = "{path}"\npreload = {preload}\n'


def waits_for_an_agent_that_is_about_to_start(build, folder):
    paths = {name: folder / f"{name}.gguf" for name in ("voice", "coder", "asked")}
    for seed, path in enumerate(paths.values()):
        write_gguf(path, 4 * MIB, seed)
        make_cold(path)
    agent = Agent(build, folder, model("voice", paths["voice"]) + model("coder", paths["coder"]) +
                  model("asked", paths["asked"], "[]"))
    ctl = agent.begin_ctl("warm", "--boot", "--timeout", "60s")

    def sleeps():
        assert ctl.poll() is None, ctl.communicate()
        with open(f"/proc/{ctl.pid}/syscall") as file:
            return file.read().startswith(NANOSLEEP)
    if os.uname().machine == "x86_64" and os.geteuid() == 0:
        until("andironctl to have looked in vain", sleeps)
    with agent:
        out, err = ctl.communicate(timeout=120)
        assert ctl.returncode == 0, (out, err)
        assert sorted(line.split(":")[0] for line in out.splitlines()) == ["coder", "voice"], out
        for name in ("voice", "coder"):
            assert agent.model(name)["state"] == "warm"
            assert resident(paths[name]) == pages(os.path.getsize(paths[name]))
        assert agent.model("asked")["preload"] == [] and resident(paths["asked"]) == 0
        agent.stop()


def one_that_is_lost_does_not_keep_the_others(build, folder):
    path = folder / "there.gguf"
    write_gguf(path, 2 * MIB)
    make_cold(path)
    with Agent(build, folder, model("lost", folder / "none.gguf") + model("there", path)) as agent:
        done = agent.ctl("warm", "--boot", "--timeout", "60s", check=False)
        assert done.returncode == 1 and "source_not_found" in done.stderr, done
        assert done.stdout.startswith("there: warm"), done
        agent.stop()


def a_deadline_leaves_the_job_at_work(build, folder):
    path = folder / "big.gguf"
    write_gguf(path, 64 * MIB)
    make_cold(path)
    slow = '[stream]\nmax_bandwidth = "1MiB"\n'
    with Agent(build, folder, slow + model("big", path, '"never"')) as agent:
        done = agent.ctl("--json", "warm", "big", "--timeout", "500ms", check=False)
        assert done.returncode == 1, done
        assert json.loads(done.stdout.splitlines()[-1])["error"]["code"] == "timeout", done.stdout
        jobs = agent.get("/v1/jobs")["jobs"]
        assert [job["state"] for job in jobs] == ["running"], jobs
        agent.stop()


main([waits_for_an_agent_that_is_about_to_start, one_that_is_lost_does_not_keep_the_others,
      a_deadline_leaves_the_job_at_work])
