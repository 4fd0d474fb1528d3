"""Which sigma to train with: members' rewards over a grid of sigmas on the real engine, and a recommendation with its reason.

Alone or under mpirun / srun, members shared over the ranks. Nothing is written; standard error shows what rank 0 is doing.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from es_mpi.cli.arguments import add_config, add_verbose
from es_mpi.cli.text import duration, pairs, table
from es_mpi.errors import UsageError

HEADER = ("sigma", "reward", "spread", "noise", "signal/noise", "fidelity", "identical", "invalid")


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_verbose(parser)
    parser.add_argument("--sigmas", metavar="A,B", help="the grid (default: 1/8, 1/4, 1/2, 1, 2 and 4 times the phase's sigma)")
    parser.add_argument("--members", metavar="N", type=int, default=16, help="directions, the same at each sigma (default 16)")
    parser.add_argument("--repeats", metavar="N", type=int, default=2, help="evaluations of the centre on each rank (default 2)")
    parser.add_argument("--phase", metavar="NAME", help="ES phase (default: the first)")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(args: argparse.Namespace) -> int:
    for flag, value, least in (("--members", args.members, 2), ("--repeats", args.repeats, 1)):
        if value < least:
            raise UsageError("out of range", value=value, expected=f"at least {least}", key=flag)
    sigmas = sigma_grid(args.sigmas) if args.sigmas else []
    from es_mpi.runner.measure import probe_sigmas

    def show(found: dict[str, Any]) -> None:
        print(json.dumps(found, indent=2) if args.json else as_text(found), flush=True)

    return probe_sigmas(
        args.config, args.overrides,
        phase=args.phase, sigmas=sigmas, population=args.members, repeats=args.repeats, show=show,
    )  # fmt: skip


def sigma_grid(text: str) -> list[float]:
    """`1e-3,3e-3` as a list in order. UsageError."""
    try:
        sigmas = sorted({float(word) for word in text.split(",")})
    except ValueError:
        sigmas = []
    if not sigmas or not 0 < sigmas[0] <= sigmas[-1] < float("inf"):
        raise UsageError("not a list of sigmas", value=text, expected="numbers above 0, like 1e-3,3e-3", key="--sigmas")
    return sigmas


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def as_text(found: dict[str, Any]) -> str:
    center, advice = found["center"], found["recommended"]
    sizes = f"{found['members']} members on {found['prompts']} prompts, {found['ranks']} rank(s), {duration(found['seconds'])}"
    head = [
        ("probe", sizes),
        ("centre", f"reward {center['mean']:.4f}, {center['invalid']:.1%} of the responses invalid"),
        ("repeated", f"{center['identical']:.1%} of the responses identical, reward +- {center['repeat_std']:.2g}"),
    ]
    if center["resample_std"] is not None:
        head.append(("resampled", f"reward +- {center['resample_std']:.2g} with other decoding seeds"))
    rows = [
        (
            f"{row['sigma']:.3g}", f"{row['mean']:.4f}", f"{row['spread']:.4f}", _number(row["noise"], 4),
            _number(row["signal_to_noise"], 2) + ("" if row["significant"] else " ?"), f"{row['fidelity']:.2f}",
            f"{row['identical']:.1%}", f"{row['invalid']:.1%}",
        )
        for row in found["levels"]
    ]  # fmt: skip
    sigma = "none" if advice["sigma"] is None else f"{advice['sigma']:.3g}"
    tail = [("recommended", f"{sigma} (configured: {found['configured']:.3g})"), ("because", advice["reason"])]
    note = "? the members do not differ beyond what equal members would show"
    return "\n\n".join([pairs(head), table(HEADER, rows) + (f"\n{note}" if "?" in str(rows) else ""), pairs(tail)])
