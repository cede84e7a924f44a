# SPDX-License-Identifier: MIT
"""The use of model weights that an Andiron agent keeps in pinned RAM, without copying them.

    import andiron

    with andiron.lease("assistant", wait=30.0) as lease:
        lease.tensors["blk.0.attn_k.weight"].numpy()

A lease is a connection to the agent: while it is there, the agent keeps the bytes, which are mapped
read-only and shared. It ends with `close()`, with the `with` block, or with the process.

`andiron.safetensors` has `load_file` and `safe_open` in place of those of the safetensors package: they
take a file's bytes from the agent where it has them, and from the file where not.

Nothing but the standard library is needed; `numpy()` and `torch()` need what they are called after.
"""
from ._errors import Error
from ._lease import Lease, Revocation, Segment, Tensor, lease

__all__ = ["Error", "Lease", "Revocation", "Segment", "Tensor", "lease", "__version__"]
__version__ = "0.1.0"
