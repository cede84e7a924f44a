#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The completions and the man page know every verb and option that `andironctl --help` shows, and no
others. $1 is the build folder."""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
CTL = os.path.join(os.path.abspath(sys.argv[1]), "bin/andironctl")
BASH = os.path.join(ROOT, "configs/completion/andironctl.bash")
ZSH = os.path.join(ROOT, "configs/completion/_andironctl")


def help_of(*verb):
    return subprocess.run([CTL, *verb, "--help"], check=True, capture_output=True, text=True).stdout


def options_of(text):
    options = text.split("Options:")[1]
    return set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", options, re.MULTILINE))


def bash_offers(words, environment=None):
    """What bash offers for the last word."""
    script = ('source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; '
              '_andironctl; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-uec", script, BASH, *words], check=True, capture_output=True,
                          text=True, env={**os.environ, **(environment or {})})
    assert not done.stderr, done.stderr
    return set(done.stdout.split())


verbs = set(re.findall(r"^  ([a-z]+)  ", help_of().split("Subcommands:")[1], re.MULTILINE))
assert {"status", "warm", "setup"} <= verbs, verbs
# `--tensors` and the like are in the help of a verb; those of every verb, in andironctl's own.
common = options_of(help_of()) - {"--version"}
options = {verb: options_of(help_of(verb)) | common for verb in verbs}
assert "--boot" in options["warm"], options

offered = bash_offers(["andironctl", ""])
assert {word for word in offered if word[0] != "-"} == verbs, offered ^ verbs
for verb in verbs:
    offered = bash_offers(["andironctl", "--json", verb, "--"])
    assert offered == options[verb], (verb, offered ^ options[verb])
assert bash_offers(["andironctl", "w"]) == {"warm"}
assert bash_offers(["andironctl", "warm", "x", "--hold", "m"]) == {"mapped"}

with open(ZSH) as file:
    zsh = file.read()
assert set(re.findall(r"^    '([a-z]+):", zsh, re.MULTILINE)) == verbs
for verb in verbs:
    part = re.search(rf"^        (?:\w+ \| )*{verb}(?: \| \w+)*\)(.*?);;", zsh, re.DOTALL | re.MULTILINE)
    said = set(re.findall(r"--[a-z]+(?:-[a-z]+)*", part.group(1))) if part else set()
    assert said == options[verb] - common, (verb, said ^ (options[verb] - common))
if shutil.which("zsh"):
    subprocess.run(["zsh", "-n", ZSH], check=True)

with open(os.path.join(ROOT, "docs/man/andironctl.1")) as file:
    page = file.read().replace("\\-", "-")
entries = {}
for entry in page.split(".SH VERBS")[1].split(".SH EXIT")[0].split(".TP\n")[1:]:
    verb = re.match(r"\.B (\w+)", entry).group(1)
    entries[verb] = entries.get(verb, "") + entry
assert set(entries) == verbs, set(entries) ^ verbs
for verb in verbs:
    said = set(re.findall(r"--[a-z]+(?:-[a-z]+)*", entries[verb]))
    assert said == options[verb] - common, (verb, said ^ (options[verb] - common))
print(f"{len(verbs)} verbs are known to bash, zsh and man")
