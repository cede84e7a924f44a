#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the pages for users say can be done: every configuration compiles, every command and option is
there, every link leads somewhere."""
import glob
import os
import re
import subprocess
import sys

from harness import main

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
USERS = ["README.md", *sorted(glob.glob("docs/*.md", root_dir=ROOT))]
ALL = [*USERS, "ARCHITECTURE.md", "CONTRIBUTING.md"]
with open(os.path.join(ROOT, "client/python/andiron/__init__.py")) as source:
    PYTHON = re.search(r"__all__ = (.*)", source.read()).group(1)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read(page):
    with open(os.path.join(ROOT, page)) as file:
        return file.read()


def blocks(page, language):
    """(where, text) of each fenced block in that language."""
    text = read(page)
    for block in FENCE.finditer(text):
        if block.group(1) == language:
            yield f"{page}:{text.count(chr(10), 0, block.start()) + 1}", block.group(2)


def code(page):
    """Lines of code, those of fenced blocks and of spans, but for configurations."""
    text = read(page)
    lines = []
    for block in FENCE.finditer(text):
        if block.group(1) in ("", "sh"):
            lines += block.group(2).replace("\\\n", " ").splitlines()
    spans = re.findall(r"`([^`]+)`", FENCE.sub("", text))
    return lines + [" ".join(span.split()) for span in spans]


def output(build, program, *arguments):
    done = subprocess.run([os.path.join(build, "bin", program), *arguments], capture_output=True,
                          text=True)
    assert done.returncode == 0, (program, arguments, done)
    return done.stdout


def configurations_compile(build, folder):
    found = 0
    for page in USERS:
        for where, text in blocks(page, "toml"):
            path = folder / "andiron.toml"
            with open(path, "w") as file:
                file.write(text)
            done = subprocess.run([os.path.join(build, "bin/andirond"), "--check-config",
                                   "--config", path], capture_output=True, text=True)
            assert done.returncode == 0 and " is good: " in done.stdout, (where, done.stderr)
            found += 1
    print(f"{found} configurations")
    assert len(list(blocks("README.md", "toml"))) >= 2, "the README shows one for Ollama, one for llama.cpp"


def commands(program):
    """(page, words) of each use of it, up to what ends a command."""
    for page in USERS:
        for line in code(page):
            for use in re.finditer(rf"(?<![\w-]){program} +([^|;&>#]+)", line):
                yield page, use.group(1).split()


def options_of(text):
    return set(re.findall(r"--[a-z][a-z-]*", text))


def commands_are_there(build, _):
    general = output(build, "andironctl", "--help")
    verbs = set(re.findall(r"^  ([a-z]+)  ", general.split("Subcommands:")[1], re.MULTILINE))
    helps = {verb: options_of(output(build, "andironctl", verb, "--help")) for verb in verbs}
    assert "warm" in verbs and "--boot" in helps["warm"], helps
    seen = set()
    for page, words in commands("andironctl"):
        while words and words[0].startswith("-"):
            assert words[0] in options_of(general), (page, words)
            words = words[2:] if words[0] == "--socket" else words[1:]
        if not words:
            continue
        assert words[0] in verbs, (page, words)
        seen.add(words[0])
        known = helps[words[0]] | options_of(general)
        words = words[:words.index("--")] if "--" in words else words  # then another program's
        unknown = [word for word in words if word.startswith("--") and word not in known]
        assert not unknown, (page, words)
    assert {"setup", "status", "warm", "explain", "events", "doctor"} <= seen, seen
    daemon = options_of(output(build, "andirond", "--help"))
    for page, words in commands("andirond"):
        unknown = [word for word in words if word.startswith("--") and word not in daemon]
        assert not unknown, (page, words)


def files_are_there(*_):
    for page in USERS:
        for line in code(page):
            for path in re.findall(r"(?<![\w/.-])(?:scripts|configs|docs)/[\w./-]+", line):
                assert os.path.exists(os.path.join(ROOT, path)), (page, path)


def anchors(page):
    """As GitHub names headings."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links_lead_somewhere(*_):
    for page in ALL:
        for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", read(page))):
            if re.match(r"https?:", target):
                continue
            path, _, anchor = target.partition("#")
            there = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            assert os.path.exists(os.path.join(ROOT, there)), (page, target)
            assert not anchor or anchor in anchors(there), (page, target, sorted(anchors(there)))


def programs_compile(_, folder):
    """C by the header, and Python as far as its grammar and the names that it imports go."""
    found = {"c": 0, "python": 0}
    for page in USERS:
        for where, text in blocks(page, "c"):
            done = subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I",
                                   os.path.join(ROOT, "client/include"), "-x", "c", "-"],
                                  input=text, capture_output=True, text=True)
            assert done.returncode == 0, (where, done.stderr)
            found["c"] += 1
        for where, text in blocks(page, "python"):
            compile(text, where, "exec")
            imports = [line for line in text.splitlines() if re.match("import|from", line)]
            done = subprocess.run([sys.executable, "-B", "-c", "\n".join(imports)], capture_output=True,
                                  text=True, env={**os.environ,
                                                  "PYTHONPATH": os.path.join(ROOT, "client/python")})
            assert done.returncode == 0, (where, done.stderr)
            for name in re.findall(r"\bandiron\.(\w+)\(", text):
                assert name in PYTHON, (where, name)
            found["python"] += 1
    print(found)
    assert all(found.values()), found


main([configurations_compile, programs_compile, commands_are_there, files_are_there, links_lead_somewhere])
