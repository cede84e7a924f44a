# SPDX-License-Identifier: MIT
"""safe_open."""
from __future__ import annotations

import os
import types
from typing import Any, Optional, Union

from .._dtypes import TORCH, as_numpy, as_torch
from .._errors import Error
from ._header import Entry, parse_header
from ._source import whole_file

try:  # So that who catches theirs catches ours.
    from safetensors import SafetensorError as _Theirs
except ImportError:
    _Theirs = Exception  # type: ignore[misc, assignment]


class SafetensorError(_Theirs):
    """What is wrong with a file, or with what is asked of it. It is safetensors' own error, too, where
    that package is there."""


_FRAMEWORKS = {"pt": "torch", "torch": "torch", "pytorch": "torch", "np": "numpy", "numpy": "numpy"}


def _numpy_type(dtype: str) -> Any:
    """numpy's own type, or the one of a package that taught it more (ml_dtypes); not the bare bits, which
    would be another result than safetensors'. TypeError where there is none."""
    import numpy

    from .._dtypes import NUMPY
    if dtype in NUMPY:
        return NUMPY[dtype]
    name = TORCH.get(dtype, dtype)
    try:
        return numpy.dtype(name)
    except TypeError:
        raise TypeError(f"data type '{name}' not understood: numpy has none for {dtype}; "
                        "import ml_dtypes first, or use torch") from None


class _Slice:
    """A tensor to be sliced."""

    def __init__(self, file: safe_open, name: str, entry: Entry) -> None:
        self._file = file
        self._name = name
        self._entry = entry

    def get_shape(self) -> list[int]:
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        return self._entry.dtype

    def __getitem__(self, index: Any) -> Any:
        return self._file._part(self._name, index)


class safe_open:
    """As safetensors.safe_open for PyTorch and numpy: opens a file, and gives tensors as they are asked for.

    filename: its path.
    framework: "pt" or "np", and their other names there.
    device: where tensors of torch are to be.
    backend: for the likeness only.
    wait: how many seconds the agent may take to load the file; $ANDIRON_LEASE_WAIT, or 0, where None.

    Errors are SafetensorError, or OSError where the file cannot be opened.
    """

    def __init__(self, filename: Union[str, os.PathLike[str]], framework: str,
                 device: Union[str, int, Any] = "cpu", *, backend: str = "mmap",
                 wait: Optional[float] = None) -> None:
        found = _FRAMEWORKS.get(framework)
        if found is None:
            raise SafetensorError(f"framework {framework} is invalid: andiron.safetensors has pt and np")
        self._torch = found == "torch"
        self._device = device
        self._data: Optional[memoryview] = None
        data, self.leased = whole_file(filename, wait)
        """Whether the bytes are the agent's copy."""
        try:
            self._header = parse_header(data)
        except ValueError as failed:
            raise SafetensorError(f"Error while deserializing header: {failed}") from None
        self._data = data

    def _bytes(self) -> memoryview:
        if self._data is None:
            raise SafetensorError("File is closed")
        return self._data

    def _entry(self, name: str) -> Entry:
        entry = self._header.entries.get(name)
        if entry is None:
            raise SafetensorError(f"File does not contain tensor {name}")
        return entry

    def _view(self, name: str) -> Any:
        entry = self._entry(name)
        view = self._bytes()[entry.begin:entry.end]
        try:
            if self._torch:
                return as_torch(view, entry.dtype, entry.shape)
            return as_numpy(view, entry.dtype, entry.shape, _numpy_type(entry.dtype))
        except Error as failed:
            raise SafetensorError(failed.message) from None

    def _placed(self, tensor: Any) -> Any:
        return tensor if not self._torch or self._device == "cpu" else tensor.to(self._device)

    def _part(self, name: str, index: Any) -> Any:
        part = self._view(name)[index]
        if self._torch:
            return self._placed(part.contiguous())
        import numpy
        return numpy.asarray(part, order="C")

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        self._bytes()
        return sorted(self._header.entries)

    def offset_keys(self) -> list[str]:
        """The names of the tensors, in the order of the file."""
        self._bytes()
        return list(self._header.entries)

    def metadata(self) -> Optional[dict[str, str]]:
        self._bytes()
        return None if self._header.metadata is None else dict(self._header.metadata)

    def get_tensor(self, name: str) -> Any:
        return self._placed(self._view(name))

    def get_tensors(self) -> dict[str, Any]:
        return {name: self.get_tensor(name) for name in self.offset_keys()}

    def get_slice(self, name: str) -> _Slice:
        self._bytes()
        return _Slice(self, name, self._entry(name))

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        # The tensors that were given out keep what they need.
        self._data = None
