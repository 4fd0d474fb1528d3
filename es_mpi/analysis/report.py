"""The drift of a model beside its controls, as one plain mapping: what `es-mpi drift --json` prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from es_mpi.analysis.drift import Cut, Drift, Sums, cuts, kind, layer, measure
from es_mpi.analysis.gaussian import norm_kept, sparsity_at
from es_mpi.analysis.weights import MasterWeights, RoundedWeights, Weights

MULTIPLES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)  # thresholds of the sparsity curve, in rms displacements

Report = dict[str, Any]


def drift_report(base: Weights, model: Weights, law_std: float | None, null: Weights | None) -> Report:
    """Drift and sparsity of `model`, of what a checkpoint of it stores, of the random walk's law and of a run on random rewards.

    `law_std` is the law's standard deviation of a weight, None where it does not apply. All must have the base's tensors.
    """
    found = {"model": measure(base, model)}
    if isinstance(model, MasterWeights):
        found["stored"] = measure(base, RoundedWeights(model))
    if null is not None:
        found["null"] = measure(base, null)
    trained = model.layout.trained_parameters
    rms = found["model"].whole.norm / math.sqrt(trained)
    return {
        "parameters": base.layout.parameters,
        "trained": trained,
        "columns": {name: _sums(drift.whole) for name, drift in found.items()},
        "law": _law(law_std, trained, found["model"].whole.norm),
        "kinds": _groups(found, kind),
        "layers": _groups(found, layer),
        "largest": dict(found["model"].largest.most_common()),
        "sparsity": _curve(base, model, null, rms) if rms else [],
    }


def _sums(sums: Sums) -> Report:
    share = sums.moved / sums.elements
    return {"relative": sums.relative, "norm": sums.norm, "rms": sums.rms, "moved": share, "largest": sums.largest}


def _law(std: float | None, trained: int, norm: float) -> Report | None:
    if not std:
        return None
    predicted = std * math.sqrt(trained)
    return {"std": std, "norm": predicted, "ratio": norm / predicted}


def _groups(found: Mapping[str, Drift], group: Callable[[str], str]) -> Report:
    by_column = {column: drift.by(group) for column, drift in found.items()}
    names = sorted(by_column["model"])
    return {name: {column: _sums(groups[name]) for column, groups in by_column.items()} for name in names}


def _curve(base: Weights, model: Weights, null: Weights | None, rms: float) -> list[Report]:
    thresholds = [m * rms for m in MULTIPLES]
    measured = {"model": cuts(base, model, thresholds)}
    if null is not None:
        measured["null"] = cuts(base, null, thresholds)
    rows = []
    for place, threshold in enumerate(thresholds):
        columns = {name: _cut(found[place]) for name, found in measured.items()}
        rows.append({"threshold": threshold, **columns, "gaussian": gaussian_cut(threshold, rms, measured["model"][place])})
    return rows


def gaussian_cut(threshold: float, rms: float, cut: Cut) -> Report:
    """What normal displacements of the same size show: their sparsity at the threshold, and the squared norm that they keep
    at the sparsity of `cut`."""
    return {"sparsity": sparsity_at(threshold, rms), "kept": norm_kept(cut.sparsity)}


def _cut(cut: Cut) -> Report:
    return {name: value for name, value in asdict(cut).items() if name != "threshold"}
