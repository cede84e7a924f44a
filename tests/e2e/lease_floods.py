#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What one user asks of the lease socket in a flood is a matter of his own: nobody else waits for
it, and the agent does not grow by it. Mounts are made in a namespace of the test's own."""
import contextlib
import os
import socket

from harness import MIB, Agent, main, own_namespace, write_gguf
from lease_wire import MAX_PACKET, Connection, lease_path
from leases import Somebody, as_user, for_everybody
from pinned import BOOT, NOBODY, PINNED, config, open_to_all, until_pinned

GROWTH = 8 * MIB  # of an agent that keeps nothing of a request that is over


def connected(agent):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.settimeout(60)
    client.connect(lease_path(agent))
    client.recv(MAX_PACKET)
    return client


def what_was_answered_leaves_nothing(build, folder):
    """However long it might have waited."""
    open_to_all(folder)
    with Agent(build, folder, for_everybody(config(folder))) as agent:
        def ask(times):
            for _ in range(times):
                with connected(agent) as client:
                    for _ in range(16):
                        client.send(b'{"op":"lease","model":"none","wait_ms":3600000}')
                        assert b"model_not_found" in client.recv(MAX_PACKET)
            return "done"
        assert Somebody(NOBODY, lambda: ask(100)).end() == "done"
        before = agent.status_field("VmRSS")
        assert Somebody(NOBODY, lambda: ask(5000)).end() == "done"
        grown = agent.status_field("VmRSS") - before
        assert grown < GROWTH, f"{grown} bytes for 80,000 requests"
        agent.stop()


def who_asks_and_goes_holds_up_nobody(build, folder):
    """Whether he may read all of these is tried in a process each time."""
    open_to_all(folder)
    store = folder / "many"
    os.makedirs(store)
    for i in range(100):
        with open(os.path.join(store, f"part{i:03}.bin"), "wb") as file:
            file.write(b"x" * (i + 1))
    write_gguf(os.path.join(store, "z.gguf"), MIB)
    settings = for_everybody(config(folder, ("many", store, PINNED, BOOT)))
    with Agent(build, folder, settings) as agent:
        until_pinned(agent, "many")
        assert as_user(1234, "many", agent) == "granted"
        before = agent.status_field("VmRSS")

        def ask_and_go():
            for _ in range(20000):
                # He may be told that he has too many connections, which end as fast as they can.
                with contextlib.suppress(OSError), connected(agent) as client:
                    client.send(b'{"op":"lease","model":"many"}')
            return "done"
        flood = Somebody(NOBODY, ask_and_go)
        assert as_user(1234, "many", agent) == "granted"
        with Connection(lease_path(agent)) as client:
            client.lease("many").close()
        assert flood.end() == "done"
        grown = agent.status_field("VmRSS") - before
        assert grown < GROWTH, f"{grown} bytes for 20,000 requests"
        agent.stop()


if __name__ == "__main__":
    own_namespace()
    main([what_was_answered_leaves_nothing, who_asks_and_goes_holds_up_nobody])
