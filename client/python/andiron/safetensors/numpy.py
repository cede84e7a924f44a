# SPDX-License-Identifier: MIT
"""In place of safetensors.numpy."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional, Union

from ._file import safe_open

if TYPE_CHECKING:
    import numpy

__all__ = ["load_file"]


def load_file(filename: Union[str, os.PathLike[str]], *, backend: str = "mmap",
              wait: Optional[float] = None) -> dict[str, numpy.ndarray[Any, Any]]:
    """All tensors of a file by their names. `backend` is there for the likeness only."""
    with safe_open(filename, framework="np", backend=backend, wait=wait) as file:
        return file.get_tensors()
