"""What a checkpoint holds: the model as a Hugging Face folder, and the exact fp32 master beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from es_mpi.params.hf_folder import save_folder
from es_mpi.params.store import MasterStore

MASTER = "master.f32"  # little-endian float32, flat, in the layout's order; no loader of model folders looks at it


def nothing(folder: Path) -> None:
    """What a run keeps beside its weights when no phase is open."""


def writer(store: MasterStore, also: Callable[[Path], None] = nothing) -> Callable[[Path], None]:
    """A function that fills an empty folder with the store's weights and whatever `also` adds."""

    def write(folder: Path) -> None:
        save_folder(store.layout, store.master, folder)
        store.master.astype("<f4", copy=False).tofile(folder / MASTER)
        also(folder)

    return write


def map_master(folder: Path) -> NDArray[np.float32]:
    """The exact master of a checkpoint, flat, read from the disk as it is used."""
    return np.memmap(folder / MASTER, "<f4", "r")


def read_master(folder: Path, store: MasterStore) -> None:
    """Fill the store from a checkpoint made with the same layout. Raises ValueError when the size does not fit."""
    stored = map_master(folder)
    if stored.shape != store.master.shape:
        raise ValueError(f"{folder / MASTER} holds {stored.size} elements, the model has {store.master.size}")
    store.master[:] = stored
