#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`[http]`: what a browser, Home Assistant and a stranger on the network get over TCP, by curl."""
import json
import os
import socket
import subprocess

from harness import MIB, Agent, UnixConnection, main, until, write_gguf

TOKEN = "e2e-0123456789abcdef0123456789abcdef"
OTHER = "e2e-fedcba9876543210fedcba9876543210"


def free_port(address="127.0.0.1"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def write_token(path, text=TOKEN, mode=0o600):
    """As `(umask 077; echo ... > token)` would, in one step."""
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text + "\n")
    os.chmod(path + ".new", mode)
    os.rename(path + ".new", path)


def config(folder, listen, token=True):
    token_file = f'token_file = "{folder / "token"}"' if token else ""
    return f"""
[budget]
ram_headroom = "1GiB"
[[model]]
name = "assistant"
source = "{folder / 'm.gguf'}"
[http]
listen = "{listen}"
{token_file}
"""


class Curl:
    """Calls an address as a shell script would."""

    def __init__(self, address):
        self.address = address

    def __call__(self, path, *options, token=None):
        """(status, headers, body)"""
        command = ["curl", "-sS", "--max-time", "30", "-D", "-", *options]
        if token is not None:
            command += ["-H", f"Authorization: Bearer {token}"]
        done = subprocess.run([*command, f"http://{self.address}{path}"], check=True,
                              capture_output=True, text=True)
        head, _, body = done.stdout.partition("\n\n")
        lines = head.splitlines()
        headers = {name.lower(): value.strip() for name, _, value in
                   (line.partition(":") for line in lines[1:])}
        assert not any(name.startswith("access-control") for name in headers), headers
        return int(lines[0].split()[1]), headers, json.loads(body) if body[:1] == "{" else None

    def answers(self):
        try:
            return self("/healthz", token=TOKEN)[0] == 200
        except subprocess.CalledProcessError:
            return False


def code_of(answer):
    return answer[0], answer[2]["error"]["code"]


def http_capability(agent):
    found = [c for c in agent.get("/v1/doctor")["capabilities"] if c["name"] == "http"]
    return found[0] if found else {"state": "unknown", "reason": ""}


def until_http(agent, state, words):
    return until(f"http to be {state}, with {words!r}",
                 lambda: (c := http_capability(agent))["state"] == state and words in c["reason"]
                 and c)


def no_secret_in(agent):
    log = agent.log()
    assert TOKEN not in log and OTHER not in log and TOKEN[4:20] not in log, log


def reads_without_a_token(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    for host, name in (("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")):
        try:
            port = free_port(host)
        except OSError:
            print(f"   {host} is not on this machine")
            continue
        address = f"{name}:{port}"
        curl = Curl(address)
        with Agent(build, folder, config(folder, address, token=False)) as agent:
            assert "only read" in until_http(agent, "on", address)["reason"]
            assert curl("/healthz")[2] == {"ok": True}
            assert curl("/v1/status")[2]["pid"] == agent.process.pid
            assert curl("/v1/models")[2]["models"][0]["name"] == "assistant"
            assert set(curl("/v1/models/assistant")[2]) == set(agent.model("assistant"))
            assert curl("/v1/doctor")[2] == agent.get("/v1/doctor")
            for path in ("/v1/plan", "/v1/jobs", "/healthz"):
                assert curl(path)[0] == 200, path
                assert curl(path, "--head")[0] == 200, path
            assert code_of(curl("/v1/models/nobody")) == (404, "model_not_found")
            for path in ("/v1/models/assistant/warm", "/v1/models/assistant/drop", "/v1/reload",
                         "/v1/resolve", "/v1/nothing"):
                assert code_of(curl(path, "-d", "{}")) == (403, "permission_denied"), path
                assert code_of(curl(path, "-d", "{}", token=TOKEN)) == (403, "permission_denied")
            assert code_of(curl("/v1/jobs/1", "-X", "DELETE")) == (403, "permission_denied")
            assert curl("/v1/jobs")[2] == {"jobs": []}
            agent.stop()


def home_assistant_warms_a_model(build, folder):
    """The calls of docs/home-assistant.md."""
    write_gguf(folder / "m.gguf", MIB)
    write_token(folder / "token")
    curl = Curl(f"127.0.0.1:{free_port()}")
    with Agent(build, folder, config(folder, curl.address)) as agent:
        until_http(agent, "on", curl.address)
        warm = ("/v1/models/assistant/warm", "-X", "POST", "-H", "Content-Type: application/json")
        status, headers, body = curl(*warm, "-d", "{}")
        assert (status, body["error"]["code"]) == (401, "unauthorized"), body
        assert headers["www-authenticate"] == 'Bearer realm="andiron"', headers
        status, headers, body = curl(*warm, "-d", "{}", token=OTHER)
        assert status == 401 and "invalid_token" in headers["www-authenticate"], headers
        assert curl("/v1/jobs")[2] == {"jobs": []}

        status, _, job = curl(*warm, "-d", "{}", token=TOKEN)
        assert status == 202 and job["model"] == "assistant", job
        status, _, model = curl(*warm, "-d", '{"wait": true}', token=TOKEN)
        assert status == 200 and model["state"] == "warm", model
        sensor = curl("/v1/models/assistant", token=TOKEN)[2]
        assert sensor["state"] == "warm", sensor
        assert sensor["tiers"]["page-cache"]["resident_bytes"] == sensor["bytes"], sensor
        assert curl("/v1/models/assistant/drop", "-d", "{}", token=TOKEN)[0] == 200
        assert curl("/v1/reload", "-X", "POST", token=TOKEN)[0] == 200
        agent.stop()
        no_secret_in(agent)


def guessing_is_limited_and_locks_nobody_out(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    write_token(folder / "token")
    curl = Curl(f"127.0.0.1:{free_port()}")
    with Agent(build, folder, config(folder, curl.address)) as agent:
        until_http(agent, "on", curl.address)
        for i in range(10):
            assert curl("/v1/reload", "-X", "POST", token=f"guess-{i:020}")[0] == 401
        status, headers, body = curl("/v1/reload", "-X", "POST", token="guess-of-sixteen")
        assert (status, body["error"]["code"]) == (429, "too_many_requests"), body
        assert 0 < int(headers["retry-after"]) <= 60, headers
        assert curl("/v1/reload", "-X", "POST", token=TOKEN)[0] == 200
        assert curl("/v1/status")[0] == 200
        assert agent.log().count("wrong tokens") == 1 and "guess-" not in agent.log(), agent.log()
        agent.stop()


def pages_of_other_sites_get_nothing(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    write_token(folder / "token")
    curl = Curl(f"127.0.0.1:{free_port()}")
    port = curl.address.partition(":")[2]
    with Agent(build, folder, config(folder, curl.address)) as agent:
        until_http(agent, "on", curl.address)
        # A name that was made to lead here, as `curl --resolve` does it.
        rebound = subprocess.run(
            ["curl", "-sS", "--max-time", "30", "--resolve", f"evil.example:{port}:127.0.0.1",
             f"http://evil.example:{port}/v1/status"], check=True, capture_output=True, text=True)
        assert json.loads(rebound.stdout)["error"]["code"] == "permission_denied", rebound.stdout
        assert Curl(f"localhost:{port}")("/v1/status", "-4")[0] == 200
        origin = ("-H", "Origin: http://evil.example")
        assert code_of(curl("/v1/status", *origin)) == (403, "permission_denied")
        assert code_of(curl("/v1/reload", "-X", "POST", *origin, token=TOKEN))[0] == 403
        assert curl("/v1/reload", "-X", "OPTIONS", *origin,
                    "-H", "Access-Control-Request-Method: POST")[0] == 403
        assert curl("/v1/status", "-H", "Sec-Fetch-Site: cross-site",
                    "-H", "Sec-Fetch-Mode: no-cors")[0] == 403
        own = ("-H", f"Origin: http://{curl.address}")
        assert curl("/v1/status", *own)[0] == 200
        agent.stop()


def reload_moves_it_and_keeps_the_socket(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    write_token(folder / "token")
    first = Curl(f"127.0.0.1:{free_port()}")
    second = Curl(f"127.0.0.1:{free_port()}")
    with Agent(build, folder, config(folder, first.address)) as agent:
        until_http(agent, "on", first.address)
        stream = UnixConnection(agent.socket)
        stream.request("GET", "/v1/events?follow=1")
        events = stream.getresponse()

        agent.configure(config(folder, second.address))
        # Over the very listener that goes: the answer still comes.
        assert first("/v1/reload", "-X", "POST", token=TOKEN)[0] == 200
        until_http(agent, "on", second.address)
        assert second.answers() and not first.answers()

        write_token(folder / "token", OTHER)  # no reload: it is noticed
        until("the new token to count", lambda: second("/v1/reload", "-X", "POST", token=OTHER)[0]
              == 200)
        assert second("/v1/reload", "-X", "POST", token=TOKEN)[0] == 401

        agent.configure(config(folder, second.address, token=False))
        assert agent.call("POST", "/v1/reload")[0] == 200
        until_http(agent, "on", "calls that only read")
        assert second("/v1/reload", "-X", "POST", token=OTHER)[0] == 403

        agent.configure(config(folder, "0.0.0.0:80", token=False))
        status, body = agent.call("POST", "/v1/reload")
        assert status == 400 and "token_file" in body["error"]["message"], body
        assert second("/v1/status")[0] == 200  # the old configuration stays

        agent.configure(config(folder, "", token=False))
        assert agent.call("POST", "/v1/reload")[0] == 200
        assert http_capability(agent)["reason"] == "[http] listen is not set"
        assert not second.answers()

        assert agent.call("POST", "/v1/models/assistant/warm", {"wait": True})[0] == 200
        assert json.loads(events.readline())["type"] == "model.warmed"  # the stream of before
        stream.close()
        agent.stop()
        no_secret_in(agent)


def what_is_in_the_way_is_said(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        curl = Curl("127.0.0.1:%d" % other.getsockname()[1])
        with Agent(build, folder, config(folder, curl.address)) as agent:
            told = until_http(agent, "off", "No such file or directory")
            assert "openssl rand" in told["remedy"], told
            for text, mode, words in ((TOKEN, 0o644, "no access"), (TOKEN, 0o660, "no access"),
                                      ("", 0o600, "it is empty"),
                                      (TOKEN[:15], 0o600, "needs 16 to 512"),
                                      (TOKEN * 20, 0o600, "may have 512")):
                write_token(folder / "token", text, mode)
                until_http(agent, "off", words)
            write_token(folder / "token")
            told = until_http(agent, "off", "Address already in use")
            assert "ss -ltnp" in told["remedy"], told
            other.close()  # and it is tried again
            until_http(agent, "on", curl.address)
            assert curl("/v1/reload", "-X", "POST", token=TOKEN)[0] == 200

            os.chmod(folder / "token", 0o640)  # from now on others read along: it guards nothing
            until_http(agent, "off", "no access")
            assert not curl.answers()
            assert agent.get("/healthz") == {"ok": True}
            os.chmod(folder / "token", 0o600)
            until_http(agent, "on", curl.address)
            assert curl.answers()
            assert agent.log().count("Address already in use") == 1, agent.log()
            agent.stop()
            no_secret_in(agent)


def beyond_loopback_only_with_the_token(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    write_token(folder / "token")
    port = free_port()
    path = folder / "bad.toml"
    with open(path, "w") as file:
        file.write(f'[http]\nlisten = "0.0.0.0:{port}"\n')
    done = subprocess.run([os.path.join(build, "bin/andirond"), "--check-config", "--config", path],
                          capture_output=True, text=True)
    assert done.returncode == 2 and f"{path}:2:10" in done.stderr, done
    with Agent(build, folder, config(folder, f"0.0.0.0:{port}")) as agent:
        until_http(agent, "on", "every call, with the token")
        curl = Curl(f"127.0.0.1:{port}")
        for path in ("/healthz", "/v1/status"):
            assert code_of(curl(path)) == (401, "unauthorized")
            assert curl(path, token=TOKEN)[0] == 200
            assert curl(path, "-H", "Host: box.lan", token=TOKEN)[0] == 200
        addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout
        outside = [a for a in addresses.split() if ":" not in a]
        if not outside:
            print("   this machine has no address beyond loopback: guessing from one is not tried")
        else:
            curl = Curl(f"{outside[0]}:{port}")
            assert curl("/v1/status", token=TOKEN)[0] == 200
            for i in range(10):
                assert curl("/v1/status", token=f"guess-{i:020}")[0] == 401
            assert curl("/v1/status", token=TOKEN)[0] == 429
            assert Curl(f"127.0.0.1:{port}")("/v1/status", token=TOKEN)[0] == 200
        agent.stop()


def its_clients_starve_nobody(build, folder):
    write_gguf(folder / "m.gguf", MIB)
    curl = Curl(f"127.0.0.1:{free_port()}")
    host, _, port = curl.address.partition(":")
    with Agent(build, folder, config(folder, curl.address, token=False)) as agent:
        until_http(agent, "on", curl.address)
        crowd = [socket.create_connection((host, int(port))) for _ in range(64)]
        until("TCP to be full", lambda: curl("/healthz")[0] == 503)
        assert agent.get("/healthz") == {"ok": True}
        for one in crowd:
            one.close()
        until("TCP to have room", lambda: curl("/healthz")[0] == 200)
        agent.stop()


main([reads_without_a_token, home_assistant_warms_a_model,
      guessing_is_limited_and_locks_nobody_out, pages_of_other_sites_get_nothing,
      reload_moves_it_and_keeps_the_socket, what_is_in_the_way_is_said,
      beyond_loopback_only_with_the_token, its_clients_starve_nobody])
