# SPDX-License-Identifier: MIT
"""How everything here fails."""
from __future__ import annotations


class Error(Exception):
    """Why there is no lease. `code` is a stable name: those of the agent's API (model_not_found,
    permission_denied, no_budget, no_headroom, stale, timeout, too_many_requests, ...), and from this
    package itself

    - unavailable: there is no agent, it hung up, or it speaks another protocol
    - timeout: it did not answer in time
    - bad_format: it sent what makes no sense
    - bad_request: the arguments make no sense
    - io_error: the system refused something
    - unsupported: a tensor of a type that numpy or torch cannot hold
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def broken(what: str) -> Error:
    """For an agent that does what it may not."""
    return Error("bad_format", f"the agent broke the protocol: {what}")
