"""Checkpoints: whole folders, made under another name and sealed by a manifest that is written last."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from es_mpi.checkpoint.files import replacing, sync_dir
from es_mpi.errors import TryAgain, UsageError

MANIFEST = "manifest.json"


class CheckpointError(TryAgain):
    """The disk refused a checkpoint. Nothing of it is left, and the run itself is unharmed."""


class _Damaged(Exception):
    """Why a folder is not a whole checkpoint."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint. `meta` is what its writer said of it (phase, digest, ...)."""

    step: int
    path: Path
    meta: dict[str, Any] = field(default_factory=dict)


def checkpoint_path(run_dir: Path, step: int) -> Path:
    """The folder of the checkpoint of `step`."""
    return run_dir / "checkpoints" / f"step_{step:06d}"


def write_checkpoint(run_dir: Path, step: int, write: Callable[[Path], None], meta: Mapping[str, object]) -> Path:
    """Make `checkpoints/step_NNNNNN`: `write` fills an empty folder, which then gets its manifest and its name.

    A folder of that name (an earlier attempt's, perhaps damaged) is replaced. Raises CheckpointError when the disk
    refuses, and whatever `write` raises; in both cases nothing of the new folder is left.
    """
    target = checkpoint_path(run_dir, step)
    temporary = target.with_name(f".{target.name}.tmp-{os.getpid()}")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        write(temporary)
        manifest = {"step": step, "meta": dict(meta), "files": _sealed(temporary)}
        with replacing(temporary / MANIFEST) as file:
            file.write(json.dumps(manifest, allow_nan=False, indent=1).encode("ascii"))
        replaced = _set_aside(target) if target.exists() else None
        temporary.rename(target)
        sync_dir(target.parent)
    except BaseException as error:
        written = sum(path.stat().st_size for path in temporary.rglob("*") if path.is_file())
        shutil.rmtree(temporary, ignore_errors=True)
        if not _disk_refused(error):
            raise
        raise CheckpointError(
            f"the checkpoint of step {step} could not be written: {error}\n"
            f"  it needs more than {written:,} bytes; {shutil.disk_usage(target.parent).free:,} are free in {target.parent}\n"
            f"  remedy    make room there, or lower checkpoint.keep"
        ) from error
    if replaced:
        shutil.rmtree(replaced)
    return target


def checkpoints(run_dir: Path) -> list[Checkpoint]:
    """All checkpoints whose files are there at their full sizes, newest first."""
    whole = []
    for path in _folders(run_dir):
        try:
            whole.append(_inspect(path, hashes=False))
        except _Damaged:
            continue
    return whole


def has_checkpoint(run_dir: Path, step: int) -> bool:
    """Whether a checkpoint of `step` stands with all its files at their full sizes."""
    return any(found.step == step for found in checkpoints(run_dir))


def find_newest(run_dir: Path, at_most: int, verify: bool = True) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint up to step `at_most`, and a note on each newer one that is damaged or lies beyond.

    `verify` compares contents, not only sizes.
    """
    notes: list[str] = []
    for path in _folders(run_dir):
        if step_of(path) > at_most:
            notes.append(f"checkpoint {path.name} passed over: the journal ends at step {at_most}")
            continue
        try:
            return _inspect(path, hashes=verify), notes
        except _Damaged as damage:
            notes.append(f"checkpoint {path.name} passed over: {damage}")
    return None, notes


def clean(run_dir: Path) -> list[str]:
    """Remove what killed writers left behind; returns the names. Only for the one process that writes."""
    leftovers = sorted((run_dir / "checkpoints").glob(".step_*"))
    for path in leftovers:
        shutil.rmtree(path)
    return [path.name for path in leftovers]


def prune(run_dir: Path, keep: int) -> list[Path]:
    """Keep the `keep` newest whole checkpoints and remove every older folder, damaged ones too; returns those removed.

    Raises UsageError when `keep` is below 1.
    """
    if keep < 1:
        raise UsageError("no checkpoint would be left", value=keep, expected="at least 1", key="checkpoint.keep")
    whole = checkpoints(run_dir)
    if len(whole) < keep:
        return []
    old = [path for path in _folders(run_dir) if step_of(path) < whole[keep - 1].step]
    for path in old:
        shutil.rmtree(_set_aside(path))
    return old


def require_space(path: Path, needed: int, *, key: str) -> None:
    """Raises UsageError unless the disk that holds `path` (which need not exist yet) has `needed` bytes free."""
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise UsageError(
            f"not enough room in {there}",
            value=f"{free:,} bytes free",
            expected=f"{needed:,} bytes",
            key=key,
            remedy="free some space, or point run.dir at another disk",
        )


def _folders(run_dir: Path) -> list[Path]:
    """All finished-looking checkpoint folders, newest first."""
    named = (path for path in (run_dir / "checkpoints").glob("step_*") if path.name.removeprefix("step_").isdecimal())
    return sorted(named, key=step_of, reverse=True)


def step_of(path: Path) -> int:
    """The step that a checkpoint folder is named after."""
    return int(path.name.removeprefix("step_"))


def _set_aside(path: Path) -> Path:
    """Take a checkpoint's name away before it is deleted: a kill then leaves no half-empty folder under that name."""
    doomed = path.with_name(f".{path.name}.old-{os.getpid()}")
    shutil.rmtree(doomed, ignore_errors=True)
    return path.rename(doomed)


def _sealed(folder: Path) -> dict[str, dict[str, int | str]]:
    """Put every file under `folder` on disk; returns its size and SHA-256 by relative path."""
    files: dict[str, dict[str, int | str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            sync_dir(path)
            continue
        with path.open("rb") as file:
            os.fsync(file.fileno())
        files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": _sha256(path)}
    return files


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _inspect(path: Path, *, hashes: bool) -> Checkpoint:
    """The checkpoint at `path`. Raises _Damaged with the first thing that is wrong."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        checkpoint = Checkpoint(manifest["step"], path, manifest["meta"])
        for name, expected in manifest["files"].items():
            size = (path / name).stat().st_size
            if size != expected["bytes"]:
                raise _Damaged(f"{name} has {size:,} bytes, not {expected['bytes']:,}")
            if hashes and _sha256(path / name) != expected["sha256"]:
                raise _Damaged(f"the contents of {name} differ from what was written")
    except OSError as error:
        raise _Damaged(f"{Path(error.filename or path).name}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _Damaged(f"{MANIFEST} does not read as a manifest") from error
    if checkpoint.step != step_of(path):
        raise _Damaged(f"{MANIFEST} is that of step {checkpoint.step}")
    return checkpoint


def _disk_refused(error: BaseException) -> bool:
    """Whether the disk is to blame. safetensors wraps an OSError of its own in a text that ends in "(os error NN)"."""
    return isinstance(error, OSError) or "(os error " in str(error)
