#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every call of the control socket as a client meets it: statuses, bodies, codes and limits."""
import json
import os
import re
import socket
import struct
import urllib.parse

from harness import (MIB, Agent, UnixConnection, main, pages, resident, until, write_gguf)

MODEL_KEYS = {"name", "source", "files", "bytes", "state", "priority", "preload", "want",
              "tiers", "evictions", "last_used"}
DETAIL_KEYS = MODEL_KEYS | {"files_detail", "last_load", "last_error", "notes", "explain"}


def config(folder, roots=None, extra=""):
    return f"""
[agent]
allow_roots = ["{roots or folder / 'models'}"]
[budget]
ram_headroom = "1GiB"
[[model]]
name = "m"
source = "{folder / 'models/m.gguf'}"
{extra}
"""


def models_folder(folder):
    os.makedirs(folder / "models")
    write_gguf(folder / "models/m.gguf", 4 * MIB)


def quoted(name):
    return urllib.parse.quote(name, safe="")


def exchange(agent, request):
    """Sends raw bytes; gives (status, body) of the first answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(30)
        peer.connect(agent.socket)
        peer.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            piece = peer.recv(65536)
            assert piece, data
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
        while len(body) < length:
            piece = peer.recv(65536)
            assert piece, data
            body += piece
    return int(head.split()[1]), json.loads(body)


def post_raw(agent, path, text):
    return exchange(agent, b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                    % (path.encode(), len(text), text))


def refused(answer, status, code):
    got, body = answer
    assert got == status, (answer, status, code)
    assert set(body) == {"error"}, body
    assert body["error"]["code"] == code, (body, code)
    assert isinstance(body["error"]["message"], str) and body["error"]["message"], body
    return body["error"]["message"]


def every_route_answers(build, folder):
    models_folder(folder)
    with Agent(build, folder, config(folder)) as agent:
        assert agent.get("/healthz") == {"ok": True}
        status = until("what the machine allows to be known",
                       lambda: (s := agent.get("/v1/status"))["capabilities"] and s)
        assert status["pid"] == agent.process.pid and status["uptime_s"] >= 0
        assert status["config"]["path"] == agent.config_path
        assert set(status["tiers"]) == {"page-cache", "pinned-ram", "vram"}
        assert [m["name"] for m in status["models"]] == ["m"]
        assert all({"name", "state", "reason", "remedy"} <= set(c) for c in status["capabilities"])
        assert agent.get("/v1/doctor")["capabilities"] == status["capabilities"]
        listed = agent.get("/v1/models")["models"]
        assert len(listed) == 1 and MODEL_KEYS == set(listed[0]), listed
        detail = agent.model("m")
        assert DETAIL_KEYS <= set(detail), set(detail)
        assert agent.get("/v1/jobs") == {"jobs": []}
        assert agent.get("/v1/plan") == {"steps": [], "dry_run": False}

        code, job = agent.call("POST", "/v1/models/m/warm")
        assert code == 202 and job["model"] == "m" and job["state"] in ("resolving", "running"), job
        code, model = agent.call("POST", "/v1/models/m/warm", {"wait": True})
        assert code == 200 and model["state"] == "warm" and DETAIL_KEYS <= set(model), model
        assert "warning" not in model, model
        jobs = agent.get("/v1/jobs")["jobs"]
        assert {j["state"] for j in jobs} == {"done"} and jobs[0]["id"] == job["id"], jobs
        code, body = agent.call("DELETE", f"/v1/jobs/{job['id']}")  # it has ended: left as it is
        assert code == 200 and body["state"] == "done", body
        code, found = agent.call("POST", "/v1/resolve", {"source": folder / "models/m.gguf"})
        assert code == 200 and found["bytes"] == model["bytes"], found
        assert found["tensors"][0]["name"] == "weight", found
        info = os.stat(folder / "models/m.gguf")
        assert found["files"] == [{"path": folder / "models/m.gguf", "bytes": info.st_size,
                                   "dev": info.st_dev, "ino": info.st_ino}], found
        code, body = agent.call("POST", "/v1/models/m/drop", {"keep_pages": True})
        assert code == 200 and body["tiers"]["page-cache"]["hold"] is None, body
        assert body["tiers"]["page-cache"]["resident_bytes"] == model["bytes"], body
        code, body = agent.call("POST", "/v1/models/m/drop", {})
        assert code == 200 and body["state"] == "cold", body
        assert resident(folder / "models/m.gguf") == 0
        assert agent.call("POST", "/v1/reload") == (200, {"ok": True, "models": 1})
        agent.stop()


def wrong_calls_are_named(build, folder):
    models_folder(folder)
    with Agent(build, folder, config(folder)) as agent:
        call = agent.call
        refused(call("GET", "/"), 404, "not_found")
        refused(call("GET", "/v2/status"), 404, "not_found")
        refused(call("GET", "/v1/status/"), 404, "not_found")
        refused(call("DELETE", "/v1/status"), 405, "method_not_allowed")
        refused(call("GET", "/v1/models/m/warm"), 405, "method_not_allowed")
        refused(call("GET", "/v1/models/nobody"), 404, "model_not_found")
        refused(call("POST", "/v1/models/nobody/warm", {}), 404, "model_not_found")
        refused(call("POST", "/v1/models/nobody/drop", {}), 404, "model_not_found")
        for job in ("999", "-1", "1x", "99999999999999999999999", "%20"):
            refused(call("DELETE", f"/v1/jobs/{job}"), 404, "not_found")

        warm = "/v1/models/m/warm"
        for text in (b"{", b"[]", b"3", b"null", b'"x"', b'{"wait":true} x', b"\xff\xfe",
                     b'{"wait":true,"wait":false}', b"[" * 4000,
                     b'{"a":' * 900 + b"1" + b"}" * 900):
            for path in (warm, "/v1/models/m/drop", "/v1/warm", "/v1/resolve"):
                refused(post_raw(agent, path, text), 400, "bad_request")
        message = refused(call("POST", warm, {"wiat": True}), 400, "bad_request")
        assert "wiat" in message and "wait" in message, message
        for path in ("/v1/models/m/drop", "/v1/warm", "/v1/resolve"):
            refused(call("POST", path, {"source": "/x", "nonsense": 1}), 400, "bad_request")
        for body in ({"wait": "yes"}, {"wait": 1}, {"hold": 3}, {"hold": ["mapped"]}, {"hold": ""},
                     {"hold": "tight"}, {"hold": "LOCKED"}, {"tier": "tape"}, {"tier": {}},
                     {"hold": "mapped\0"}):
            refused(call("POST", warm, body), 400, "bad_request")
        refused(call("POST", warm, {"tier": "vram"}), 503, "unavailable")
        refused(call("POST", "/v1/models/m/drop", {"keep_pages": "no"}), 400, "bad_request")
        for body in ({}, {"source": 3}, {"source": None}, {"source": ""}, {"source": "x" * 4097},
                     {"source": "/a\0b"}, {"source": "/x", "also": "y"},
                     {"source": "/x", "also": [1]}, {"source": "/x", "hold": "firm"}):
            refused(call("POST", "/v1/warm", body), 400, "bad_request")
        for body in ({}, {"source": 3}, {"source": "/x", "tensors": "all"}):
            refused(call("POST", "/v1/resolve", body), 400, "bad_request")
        for since in ("yesterday", "-1", "5q", "2026-13-40T00:00:00Z", "1e9"):
            refused(call("GET", f"/v1/events?since={since}"), 400, "bad_request")
        # None of that did anything.
        assert agent.get("/v1/jobs") == {"jobs": []}
        assert [m["name"] for m in agent.get("/v1/models")["models"]] == ["m"]
        assert agent.model("m")["want"]["hold"] is None
        agent.stop()


def requests_are_bounded(build, folder):
    models_folder(folder)
    with Agent(build, folder, config(folder)) as agent:
        fits = json.dumps({"source": "/x", "wait": True}).encode()
        refused(post_raw(agent, "/v1/warm", fits + b" " * (60 * 1024)), 403, "outside_roots")
        refused(post_raw(agent, "/v1/warm", fits + b" " * (64 * 1024)), 413, "too_large")
        refused(exchange(agent, b"POST /v1/warm HTTP/1.1\r\nHost: x\r\n"
                                b"Content-Length: 99999999999\r\n\r\n"), 413, "too_large")
        refused(exchange(agent, b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 70000 + b"\r\n\r\n"),
                431, "too_large")
        refused(exchange(agent, b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n"), 400, "bad_request")
        refused(exchange(agent, b"GET /v1/models/a%00b HTTP/1.1\r\nHost: x\r\n\r\n"), 400,
                "bad_request")
        refused(exchange(agent, b"gibberish\r\n\r\n"), 400, "bad_request")
        assert agent.get("/healthz") == {"ok": True}
        agent.stop()


def warm_source(agent, source, call="/v1/warm"):
    body = {"source": source}
    if call == "/v1/warm":
        body["wait"] = True
    return agent.call("POST", call, body)


def sources_outside_are_all_alike(build, folder):
    """What lies outside of the roots, or does not, cannot be told apart by asking."""
    models_folder(folder)
    os.makedirs(folder / "secret")
    write_gguf(folder / "secret/s.gguf", MIB)
    os.makedirs(folder / "models/sub")
    inside = folder / "models"
    os.symlink(folder / "secret/s.gguf", inside + "/link.gguf")
    os.symlink(folder / "secret", inside + "/way")
    os.symlink("/nonexistent/x.gguf", inside + "/dangling.gguf")
    outside = ["/etc/shadow", "/etc/shadow-none", folder / "secret/s.gguf",
               folder / "secret/none.gguf", folder / "secret", inside + "/link.gguf",
               inside + "/way/s.gguf", inside + "/way/none.gguf", inside + "/dangling.gguf",
               inside + "/../secret/s.gguf", inside + "/sub/../../secret/none.gguf",
               inside + "-not/x.gguf", "/proc/self/environ", "/dev/zero", "/"]
    with Agent(build, folder, config(folder)) as agent:
        for source in outside:
            for call in ("/v1/warm", "/v1/resolve"):
                message = refused(warm_source(agent, source, call), 403, "outside_roots")
                # Nothing but what was asked is said: no target of a link, no errno.
                rest = message.replace(source, "", 1)
                assert rest.strip(": ") == "outside the allowed roots", (source, message)
        # Inside it is told what is wrong.
        refused(warm_source(agent, inside + "/none.gguf"), 404, "source_not_found")
        # And ".." that stays inside is no offence.
        status, body = warm_source(agent, inside + "/sub/../m.gguf")
        assert status == 200 and body["state"] == "warm", body
        agent.stop()


def sources_that_are_no_model(build, folder):
    models_folder(folder)
    inside = folder / "models"
    os.mkfifo(inside + "/pipe.gguf")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(inside)  # a socket's name is short
        listener.bind("sock.gguf")
        os.chdir("/")
        os.makedirs(inside + "/empty")
        os.symlink("b.gguf", inside + "/a.gguf")
        os.symlink("a.gguf", inside + "/b.gguf")
        write_gguf(inside + "/short.gguf", MIB)
        os.truncate(inside + "/short.gguf", MIB // 2)
        with open(inside + "/noise.gguf", "wb") as file:
            file.write(b"not a model at all" * 100)
        with open(inside + "/huge.gguf", "wb") as file:  # counts that no file can have
            file.write(b"GGUF" + struct.pack("<IQQ", 3, 2**63, 2**63))
        with open(inside + "/zero.gguf", "wb"):
            pass
        with open(inside + "/x.safetensors", "wb") as file:
            file.write(struct.pack("<Q", 2**62) + b"{}")
        wrong = {"pipe.gguf": (422, {"not_regular_file"}), "sock.gguf": (422, {"not_regular_file"}),
                 "a.gguf": (422, {"symlink_loop"}), "short.gguf": (422, {"truncated"}),
                 "noise.gguf": (422, {"bad_format"}), "huge.gguf": (413, {"too_large"}),
                 "zero.gguf": (422, {"truncated", "bad_format"}),
                 "x.safetensors": (413, {"too_large"}),
                 "empty": (404, {"source_not_found"})}
        if os.geteuid() == 0:
            os.mknod(inside + "/null.gguf", 0o600 | 0o020000, os.makedev(1, 3))
            wrong["null.gguf"] = (422, {"not_regular_file"})
        else:
            print("left out, needs root: a device as a source")
        with Agent(build, folder, config(folder)) as agent:
            answers = []
            for name, (status, codes) in wrong.items():
                for call in ("/v1/warm", "/v1/resolve"):
                    got, body = warm_source(agent, f"{inside}/{name}", call)
                    if got != status or body["error"]["code"] not in codes:
                        answers.append((name, call, got, body))
            assert not answers, answers
            agent.stop()


def failed_requests_leave_nothing(build, folder):
    models_folder(folder)
    with Agent(build, folder, config(folder)) as agent:
        for name in ("first", "second"):  # buffers that are kept are there after the first
            fds = len(os.listdir(f"/proc/{agent.process.pid}/fd"))
            for i in range(300):
                answer = warm_source(agent, f"{folder / 'models'}/{name}-{i}.gguf")
                refused(answer, 404, "source_not_found")
            until("the failed ones to be gone", lambda: len(agent.get("/v1/models")["models"]) == 1)
        assert len(os.listdir(f"/proc/{agent.process.pid}/fd")) <= fds + 2
        assert len(agent.get("/v1/jobs")["jobs"]) < 100
        with open(os.path.join(agent.state_dir, "wanted.json")) as file:
            assert "first-" not in file.read()
        # And there is room for one that can be warmed.
        write_gguf(folder / "models/new.gguf", MIB)
        assert warm_source(agent, folder / "models/new.gguf")[0] == 200
        agent.stop()


def ad_hoc_models_come_and_go(build, folder):
    models_folder(folder)
    names = ["with space.gguf", "a%2Fb+c.gguf", "ünï-模型.gguf", "quote\"back\\slash.gguf",
             "line\nbreak.gguf"]
    with Agent(build, folder, config(folder)) as agent:
        for name in names:
            source = folder / ("models/" + name)
            size = write_gguf(source, MIB)
            status, model = warm_source(agent, source)
            assert status == 200 and model["name"] == source, model
            assert agent.model(source)["state"] == "warm"
            # The same source again is the same model.
            assert warm_source(agent, source)[0] == 200
            assert resident(source) == pages(size)
        assert len(agent.get("/v1/models")["models"]) == 1 + len(names)
        refused(agent.call("GET", "/v1/models/" + folder.path), 404, "not_found")
        for name in names:
            source = folder / ("models/" + name)
            status, model = agent.call("POST", f"/v1/models/{quoted(source)}/drop", {})
            assert status == 200 and model["state"] == "cold", model
            assert resident(source) == 0
        # They are shown for a minute, for whoever looks, and then gone.
        until("them to be forgotten", lambda: len(agent.get("/v1/models")["models"]) == 1, 120)
        refused(agent.call("GET", "/v1/models/" + quoted(source)), 404, "model_not_found")
        agent.stop()


def events_since_and_follow(build, folder):
    models_folder(folder)
    with Agent(build, folder, config(folder)) as agent:
        agent.ctl("warm", "m")
        first = agent.events()
        assert [e["type"] for e in first] == ["model.warmed"], first
        event = first[0]
        assert {"seq", "time", "type", "model", "file", "bytes", "cause", "by"} <= set(event), event
        assert event["seq"] == 1 and event["model"] == "m" and event["by"] is None, event
        assert event["bytes"] == os.path.getsize(folder / "models/m.gguf")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", event["time"]), event
        assert agent.events(event["seq"]) == []
        assert agent.events(10**18) == []
        assert agent.events("1h") == first and agent.events("2000-01-01T00:00:00Z") == first
        assert agent.events("2100-01-01T00:00:00Z") == []

        follower = UnixConnection(agent.socket)
        follower.request("GET", "/v1/events?follow=1")
        stream = follower.getresponse()
        assert stream.headers["Content-Type"] == "application/x-ndjson", stream.headers
        replay = UnixConnection(agent.socket)
        replay.request("GET", "/v1/events?follow=1&since=0")
        replayed = replay.getresponse()
        assert json.loads(replayed.readline()) == event
        agent.ctl("drop", "m")
        agent.ctl("warm", "m")
        for lines in (stream, replayed):  # only what came since, on the first
            line = json.loads(lines.readline())
            assert line["type"] == "model.warmed" and line["seq"] == 2, line
        agent.stop()  # ends the streams in order
        assert stream.read() == b"" and replayed.read() == b""


def ctl_passes_bodies_on(build, folder):
    models_folder(folder)
    with Agent(build, folder, config(folder)) as agent:
        until("capabilities", lambda: agent.get("/v1/status")["capabilities"])
        agent.ctl("warm", "m")

        def same(arguments, method, path, body=None, ignore=()):
            done = agent.ctl("--json", *arguments, check=False)
            printed = json.loads(done.stdout)
            _, answered = agent.call(method, path, body)
            for key in ignore:
                printed.pop(key), answered.pop(key)
            assert printed == answered, (arguments, printed, answered)
            assert done.stderr == "", done.stderr
            return done.returncode

        assert same(["status"], "GET", "/v1/status",
                    ignore=("uptime_s", "memory", "tiers", "slow_lane", "lanes")) == 0
        assert same(["explain", "m"], "GET", "/v1/models/m") == 0
        assert same(["jobs"], "GET", "/v1/jobs") == 0
        assert same(["plan"], "GET", "/v1/plan") == 0
        assert same(["doctor"], "GET", "/v1/doctor") == 0
        assert same(["explain", "nobody"], "GET", "/v1/models/nobody") == 1
        assert same(["drop", "nobody"], "POST", "/v1/models/nobody/drop", {}) == 1
        lines = agent.ctl("--json", "events").stdout.splitlines()
        assert [json.loads(line) for line in lines] == agent.events()
        lines = [json.loads(line) for line in agent.ctl("--json", "warm", "m").stdout.splitlines()]
        assert lines[-1]["state"] == "done" and lines[-1]["model"]["name"] == "m", lines
        agent.stop()


def ctl_exit_statuses(build, folder):
    models_folder(folder)
    with Agent(build, folder, config(folder)) as agent:
        def status(*arguments):
            return agent.ctl(*arguments, check=False).returncode
        assert status("status") == 0
        assert status("warm", "m") == 0 and status("drop", "m") == 0
        assert status("explain", "nobody") == 1
        assert status("warm", "nobody") == 1
        assert status("warm", folder / "models/none.gguf") == 1
        assert status("warm", "/etc/shadow") == 1
        assert status() == 2 and status("fly") == 2 and status("warm") == 2
        assert status("warm", "m", "--hold", "tight") == 2
        assert status("status", "--nonsense") == 2
        agent.stop()
        assert status("status") == 3 and status("warm", "m") == 3 and status("events") == 3
        # These work without an agent.
        done = agent.ctl("--json", "resolve", folder / "models/m.gguf", check=False)
        assert done.returncode == 0 and json.loads(done.stdout)["bytes"], done
        assert status("doctor") == 0


main([every_route_answers, wrong_calls_are_named, requests_are_bounded,
      sources_outside_are_all_alike, sources_that_are_no_model, failed_requests_leave_nothing,
      ad_hoc_models_come_and_go, events_since_and_follow, ctl_passes_bodies_on, ctl_exit_statuses])
