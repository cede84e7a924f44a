# SPDX-License-Identifier: MIT
"""Reads a compose file as far as ours go, and says it in options of `docker run`: so what is tested is
what the file says, also where there is no `docker compose`."""
import re

# Each key of a service that our files may use, with what makes options of its value.
OPTIONS = {
    "container_name": lambda value: ["--name", value],
    "network_mode": lambda value: ["--network", value],
    "pid": lambda value: ["--pid", value],
    "cap_drop": lambda value: [f"--cap-drop={each}" for each in value],
    "cap_add": lambda value: [f"--cap-add={each}" for each in value],
    "security_opt": lambda value: [f"--security-opt={each}" for each in value],
    "read_only": lambda value: ["--read-only"] if value else [],
    "oom_score_adj": lambda value: [f"--oom-score-adj={value}"],
    "volumes": lambda value: [f"--volume={each}" for each in value],
    "environment": lambda value: [f"--env={name}={text}" for name, text in value.items()],
    "ports": lambda value: [f"--publish={each}" for each in value],
    "restart": lambda value: ["--restart", value],
    "stop_grace_period": lambda value: ["--stop-timeout", re.fullmatch(r"(\d+)s", value)[1]],
}
# What is not an option: the image and what it runs, and an order that `docker run` does not know.
OTHERS = {"image", "command", "depends_on"}


def load(path):
    import yaml  # python3-yaml; whoever lacks it is told by the caller
    with open(path) as file:
        return yaml.safe_load(file)


def check(composed):
    """That it says nothing which the above does not know, and names volumes that it declares."""
    assert set(composed) <= {"services", "volumes"}, set(composed)
    declared = set(composed.get("volumes") or {})
    for name, service in composed["services"].items():
        unknown = set(service) - set(OPTIONS) - OTHERS
        assert not unknown, (name, unknown)
        assert service["container_name"] == name, name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source[0] in "/." or source in declared, (name, volume)
        assert set(service.get("depends_on", [])) <= set(composed["services"]), name


def run_options(service, without=()):
    return [option for key, value in service.items() if key in OPTIONS and key not in without
            for option in OPTIONS[key](value)]


def configuration(path):
    """The TOML in the comments of a compose file: the lines that are indented there."""
    with open(path) as file:
        lines = [match[1] for line in file if (match := re.match(r"#(?:     (.*))?$", line.rstrip("\n")))]
    return "\n".join(line or "" for line in lines)
