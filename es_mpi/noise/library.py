"""Finds and binds the native noise library (C ABI, see csrc/noise.cpp and csrc/device.cpp)."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from es_mpi.errors import UsageError

NAME = "libes_mpi_noise.so"
ABI = 2  # es_mpi_noise_abi() of the source this module belongs to
SLOWER = 300  # times: the reference against one core with AVX-512

CHOICE = "ES_MPI_NOISE"  # "reference" does without the library
ISA = "ES_MPI_NOISE_ISA"  # an instruction set instead of the fastest

_INT, _U64, _FLOAT, _POINTER, _TEXT = ctypes.c_int, ctypes.c_uint64, ctypes.c_float, ctypes.c_void_p, ctypes.c_char_p
Signatures = dict[str, tuple[Any, list[Any]]]
_SIGNATURES: Signatures = {
    "isa": (_TEXT, []),
    "select": (_INT, [_TEXT]),
    "fill": (None, [_POINTER, _U64, _U64, _U64, _U64, _INT]),
    "perturb": (None, [_POINTER, _INT, _POINTER, _U64, _U64, _U64, _U64, _FLOAT, _INT]),
    "update": (None, [_POINTER, _U64, _U64, _POINTER, _POINTER, _U64, _U64, _INT, _POINTER]),
    "normals_of": (None, [_POINTER, _POINTER, _POINTER, _POINTER, _U64]),
    "philox": (_U64, [_U64, _U64, _U64, _U64, _INT]),
    "digest": (_U64, [_POINTER, _U64, _U64, _INT]),
    "fnv1a": (_U64, [_POINTER, _U64, _U64]),
}
DEVICE_SIGNATURES: Signatures = {  # kernels take the device and its queue first and return what went wrong
    "built": (_INT, []),
    "open": (_TEXT, [ctypes.POINTER(_POINTER)]),
    "close": (None, [_POINTER]),
    "fill": (_TEXT, [_POINTER, _POINTER, _U64, _U64, _U64, _U64, _U64]),
    "perturb": (_TEXT, [_POINTER, _POINTER, _U64, _INT, _U64, _U64, _U64, _U64, _U64, _FLOAT]),
    "update": (_TEXT, [_POINTER, _POINTER, _U64, _U64, _U64, _U64, _U64, _U64, _U64, _U64]),
    "digest": (_TEXT, [_POINTER, _POINTER, _U64, _U64, _U64, _U64]),
}


@functools.cache
def load() -> ctypes.CDLL | None:
    """The library with `es_mpi_noise_*` functions, or None where the reference must do its work (with one warning).

    Raises UsageError for an unknown value of ES_MPI_NOISE, an instruction set of ES_MPI_NOISE_ISA that this machine lacks,
    or a library built from another version of the source.
    """
    choice = os.environ.get(CHOICE, "")
    if choice == "reference":
        return None
    if choice:
        raise UsageError("unknown noise implementation", value=choice, expected="'reference' or nothing", key=CHOICE)
    path = find()
    try:
        if path is not None:
            return bind(path)
        reason = f"{NAME} was not found"
    except OSError as error:
        reason = str(error)
    warnings.warn(
        f"no native noise library ({reason}): the numpy reference gives the same bits, about {SLOWER} times slower. "
        f"Install es_mpi where a C++ compiler is present, or set {CHOICE}=reference to silence this.",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def find() -> Path | None:
    """The library's file: beside this module, or where an editable install put it, in site-packages."""
    folders = [Path(__file__).parent, *(Path(entry) / "es_mpi" / "noise" for entry in sys.path)]
    return next((folder / NAME for folder in folders if (folder / NAME).is_file()), None)


def bind(path: Path) -> ctypes.CDLL:
    """The library at `path` with typed functions and its instruction set chosen. Raises as `load`."""
    library = ctypes.CDLL(str(path))
    abi = library.es_mpi_noise_abi()
    if abi != ABI:
        raise UsageError(
            "the noise library is from another version", value=f"{path}: {abi}", expected=str(ABI), remedy="reinstall"
        )
    declare(library, "es_mpi_noise", _SIGNATURES)
    declare(library, "es_mpi_device", DEVICE_SIGNATURES)
    isa = os.environ.get(ISA, "")
    if not library.es_mpi_noise_select(isa.encode()):
        raise UsageError(
            "this machine or build lacks it", value=isa, key=ISA, expected="avx512bf16, avx512, avx2 or portable"
        )
    return library


def declare(library: ctypes.CDLL, prefix: str, signatures: Signatures) -> None:
    """Give the functions `prefix`_NAME their types."""
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"{prefix}_{name}")
        function.restype, function.argtypes = result, arguments
