# SPDX-License-Identifier: MIT
"""`load_file` and `safe_open` in place of those of the safetensors package.

They open the file, show it to the agent, and take its bytes from pinned RAM where the agent has them; else,
whatever the reason (no agent, not in pinned RAM, refused, changed), from the file itself. What they give is
the same either way: tensors without a copy behind them, which may be written to (a page that is written to
is copied for the one who writes). The lease ends with the last of the tensors.

    from andiron.safetensors import load_file            # as safetensors.torch.load_file
    from andiron.safetensors.numpy import load_file      # as safetensors.numpy.load_file
    from andiron.safetensors import safe_open            # as safetensors.safe_open

$ANDIRON_LEASE_WAIT, or `wait`, says how many seconds the agent may take to load a file that it does not have
in pinned RAM: 0 unless set.
"""
from ._file import SafetensorError, safe_open
from .torch import load_file

__all__ = ["SafetensorError", "load_file", "safe_open"]
