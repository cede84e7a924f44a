# SPDX-License-Identifier: MIT
"""In place of safetensors.torch."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional, Union

from ._file import safe_open

if TYPE_CHECKING:
    import torch

__all__ = ["load_file"]


def load_file(filename: Union[str, os.PathLike[str]], device: Union[str, int] = "cpu", *,
              backend: str = "mmap", wait: Optional[float] = None) -> dict[str, torch.Tensor]:
    """All tensors of a file by their names. `backend` is there for the likeness only."""
    with safe_open(filename, framework="pt", device=device, backend=backend, wait=wait) as file:
        return file.get_tensors()
