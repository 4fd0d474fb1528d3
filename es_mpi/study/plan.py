"""The file of a study, and the runs that it stands for.

    name: population
    base: ../tiny.yaml                               # beside the study's file
    set: {eval.samples: 16}                          # for every run
    axes:
      phases.warm.population: [8, 16, 32, 64]        # a key with its values,
      budget:                                        # or points with names that set several keys together
        few: {phases.warm.updates: 10, phases.warm.alpha: 1.0e-2}
        many: {phases.warm.updates: 40, phases.warm.alpha: 5.0e-3}
      run.seed: [0, 1, 2]                            # repetitions of each point
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.config.identity import flat
from es_mpi.config.keys import Key
from es_mpi.config.load import load_config, load_section
from es_mpi.config.schema import FOLDER_NAME, Config
from es_mpi.errors import UsageError, did_you_mean

SEED = "run.seed"
OWN = {"run.name", "run.dir"}  # of every run, decided by the study
OPEN = ("task.options.", "eval.data.", "eval.rewards.")  # sections whose keys are free

Keys = Mapping[str, Any]  # dot path to value


@dataclass(frozen=True, kw_only=True)
class StudyFile:
    """What a study's YAML file may hold."""

    name: Annotated[str, Key("Folder of the study below `dir`.", pattern=FOLDER_NAME)]
    base: Annotated[str, Key("Config that every run starts from, beside the study's file.")]
    axes: Annotated[Mapping[str, Any], Key("A config key with its values, or a name with named points.")]
    dir: Annotated[str, Key("Where the study's folder is made.")] = "runs"
    set: Annotated[Mapping[str, Any], Key("Keys of every run, by dot path.")] = field(default_factory=dict)
    reference: Annotated[str | None, Key("Point that differences are to; null means the base model, if evaluated.")] = None
    smoothing: Annotated[float, Key("Decay of the mean that smooths training rewards.", at_least=0, at_most=0.9999)] = 0.99


@dataclass(frozen=True)
class Cell:
    """One run: its point on the axes (without the seed), its seed, the overrides of the base, and its folder."""

    point: str
    seed: int
    overrides: Sequence[str]
    config: Config

    @property
    def folder(self) -> RunFolder:
        return RunFolder(Path(self.config.run.dir) / self.config.run.name)


@dataclass(frozen=True)
class Study:
    """A checked study. `cells` are in the order in which they are run: every point with the first seed, then the next seed."""

    file: StudyFile
    path: Path
    base: Path
    cells: Sequence[Cell]

    @property
    def folder(self) -> Path:
        return Path(self.file.dir) / self.file.name

    @property
    def points(self) -> dict[str, list[Cell]]:
        """The cells of each point, seeds in order."""
        found: dict[str, list[Cell]] = {}
        for cell in self.cells:
            found.setdefault(cell.point, []).append(cell)
        return found


def read_study(path: str | Path) -> Study:
    """The study in the YAML file `path`, every one of its configs loaded. Raises UsageError."""
    path = Path(path)
    file = load_section(path, StudyFile)
    base = path.parent / file.base
    try:
        known = flat(load_config(base))
    except UsageError as error:
        raise UsageError(f"the base config does not load\n{error}", key="base", value=str(base)) from error
    _require_known(file.set, known, "set")
    axes = [_axis(name, values, known) for name, values in file.axes.items() if name != SEED]
    seeds = _seeds(file.axes.get(SEED, [json.loads(known[SEED])]))
    if not axes:
        raise UsageError("has no axis beside the seed", key="axes", expected="a config key with its values, or named points")
    cells = [_cell(file, base, points, seed) for seed in seeds for points in product(*axes)]
    twice = {cell.folder.path for cell in cells}
    if len(twice) < len(cells):
        raise UsageError("two points have the same name", key="axes", remedy="give the points of an axis names")
    study = Study(file, path, base, cells)
    reference = file.reference
    if reference is not None and reference not in study.points:
        raise UsageError("no such point", value=reference, key="reference", remedy=did_you_mean(reference, study.points))
    return study


def _axis(name: str, values: Any, known: Keys) -> list[tuple[str, Keys]]:
    """The points of an axis, each with its label and keys."""
    if not isinstance(values, Mapping | list) or not values:
        raise UsageError("is an empty axis", value=values, key=f"axes.{name}", expected="[value, ...], or {point: {key: value}}")
    if isinstance(values, list):
        _require_known({name: None}, known, "axes")
        return [(f"{name.rpartition('.')[2]}={_label(value)}", {name: value}) for value in values]
    for point, keys in values.items():
        if not isinstance(keys, Mapping) or not keys:
            raise UsageError("sets nothing", value=keys, key=f"axes.{name}.{point}", expected="keys with values, by dot path")
        _require_known(keys, known, f"axes.{name}.{point}")
    return [(str(point), keys) for point, keys in values.items()]


def _require_known(keys: Keys, known: Keys, where: str) -> None:
    for key in keys:
        if key in OWN or key == SEED:
            remedy = "name and dir of the study" if key in OWN else f"axes.{SEED}: [0, 1, 2]"
            raise UsageError(f"{key} is set by the study", key=where, remedy=remedy)
        if key not in known and not key.startswith(OPEN):
            raise UsageError(f"the base config has no key {key}", key=where, remedy=did_you_mean(key, known))


def _seeds(values: Any) -> list[int]:
    seeds = values if isinstance(values, list) else []
    if not seeds or len(set(map(str, seeds))) < len(seeds):
        raise UsageError("not a list of seeds", value=values, key=f"axes.{SEED}", expected="different whole numbers, like [0, 1]")
    return seeds


def _cell(file: StudyFile, base: Path, points: Sequence[tuple[str, Keys]], seed: int) -> Cell:
    point = " ".join(label for label, _ in points)
    name = re.sub(r"[^A-Za-z0-9_.+=-]+", "_", f"{point} seed={seed}")
    run = {"run.dir": f"{file.dir}/{file.name}", "run.name": name, SEED: seed}
    keys: dict[str, Any] = {**file.set, **{key: value for _, keys in points for key, value in keys.items()}, **run}
    overrides = [f"{key}={json.dumps(value)}" for key, value in keys.items()]
    try:
        return Cell(point, seed, overrides, load_config(base, overrides))
    except UsageError as error:
        raise UsageError(f"the point {point!r} is no valid config\n{error}", key="axes") from error


def _label(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def commands(cell: Cell, base: Path) -> Iterator[str]:
    """The words after `es-mpi` that begin the run of a cell, or go on with it."""
    if cell.folder.config.is_file():
        yield from ("resume", str(cell.folder.path))
    else:
        yield from ("train", str(base), *cell.overrides)
