"""The embedded models by name, and how one becomes a folder: as a whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from es_mpi.embedded import smollm2, tiny
from es_mpi.engine import toy
from es_mpi.errors import UsageError, did_you_mean

ORIGIN = "origin.json"  # written last: where it is, the model is complete


@dataclass(frozen=True)
class Embedded:
    """One model: what it is, the facts that decide its weights (by seed), and how its files are written."""

    description: str
    recipe: Callable[[int], dict[str, object]]
    write: Callable[[Path, int], None]


MODELS = {
    "smollm2-135m": Embedded(smollm2.DESCRIPTION, smollm2.recipe, smollm2.write),
    "tiny": Embedded(tiny.DESCRIPTION, tiny.recipe, tiny.write),
    "toy": Embedded("ten logits, no language model, for engine.kind=toy", toy.recipe, toy.write_toy_model),
}
NAMES: dict[str, str] = {name: model.description for name, model in MODELS.items()}


def fingerprint(name: str, *, seed: int = 0) -> str:
    """Short hash of all that decides the model's weights. Raises UsageError for an unknown name."""
    recipe = _model(name).recipe(seed)
    return hashlib.blake2b(json.dumps(recipe, sort_keys=True).encode(), digest_size=6).hexdigest()


def materialise(name: str, out: Path, *, seed: int = 0) -> None:
    """Make the Hugging Face checkpoint folder `out`: weights (bfloat16; float32 for the toy), tokenizer, `origin.json`.

    `seed` matters only for a model that is trained here. A folder that already holds this model is left as it is.
    A killed call leaves no `out`, at most a hidden folder beside it. Raises UsageError for an unknown name, for an
    `out` that holds anything else, and when the source files cannot be had.
    """
    model, key = _model(name), fingerprint(name, seed=seed)
    if _is_complete(out, key):
        print(f"{out}: already holds {name}")
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(
            f"the output folder exists and does not hold {name} as it would be made now",
            value=str(out),
            expected="a new or empty folder",
            key="--out",
            remedy="choose another folder, or remove this one",
        )
    print(f"{out}: making {name} ({model.description})", flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        folder = Path(scratch) / out.name
        folder.mkdir()
        with contextlib.redirect_stderr(io.StringIO()):  # progress bars of the libraries; errors are raised, not written
            model.write(folder, seed)
        origin = {"name": name, "fingerprint": key, "recipe": model.recipe(seed)}
        (folder / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n")
        _move(folder, out, key)


def _model(name: str) -> Embedded:
    if name not in MODELS:
        raise UsageError("no embedded model of this name", value=name, expected=did_you_mean(name, MODELS), key="NAME")
    return MODELS[name]


def _is_complete(folder: Path, key: str) -> bool:
    try:
        return bool(json.loads((folder / ORIGIN).read_text())["fingerprint"] == key)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _move(folder: Path, out: Path, key: str) -> None:
    try:
        folder.rename(out)
    except OSError:
        if not _is_complete(out, key):  # else another process made the same model meanwhile
            raise
