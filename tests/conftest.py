"""Fixtures that every tier shares: the two embedded models and the folder of shared data."""

from __future__ import annotations

from pathlib import Path

import pytest
from device_kernels import driver, kernels

__all__ = ["driver", "kernels"]  # fixtures

REPO = Path(__file__).resolve().parents[1]


def _model(name: str) -> Path:
    from es_mpi import embedded

    # Keyed by recipe, so that a changed recipe makes a new model and a second run of the tests makes none.
    out = REPO / "models" / f"{name}-{embedded.fingerprint(name)}"
    embedded.materialise(name, out)
    return out


@pytest.fixture(scope="session")
def smollm2_dir() -> Path:
    """Checkpoint of SmolLM2-135M-Instruct (bf16). Made once per recipe, kept in `models/`."""
    return _model("smollm2-135m")


@pytest.fixture(scope="session")
def tiny_dir() -> Path:
    """Checkpoint of the tiny character-level model. Made once per recipe (about a minute), kept in `models/`."""
    return _model("tiny")


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of shared data beside the repository; tests that need it are skipped without it."""
    shared = REPO.parent / "shared"
    if not (shared / "data").is_dir():
        pytest.skip(f"needs the shared data folder {shared}, which this machine does not have")
    return shared
