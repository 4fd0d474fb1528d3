"""How different the members' policies are, over a grid of sigmas on the real engine, beside what theory predicts of them.

Alone or under mpirun / srun, members shared over the ranks. Nothing is written; standard error shows what rank 0 is doing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from es_mpi.cli.arguments import add_config, add_verbose
from es_mpi.cli.probe import sigma_grid
from es_mpi.cli.text import duration, pairs, table
from es_mpi.errors import UsageError

LEAST = {"members": 2, "samples": 1, "prompts": 1, "draws": 0}


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_verbose(parser)
    parser.add_argument("--sigmas", metavar="A,B", help="the grid (default: 1/8, 1/4, 1/2, 1, 2 and 4 times the phase's sigma)")
    parser.add_argument("--members", metavar="N", type=int, default=8, help="directions, the same at each sigma (default 8)")
    parser.add_argument("--samples", metavar="M", type=int, default=8, help="responses of a member to a prompt (default 8)")
    parser.add_argument("--prompts", metavar="B", type=int, default=16, help="problems of the first batch (default 16)")
    parser.add_argument("--fisher-sigma", metavar="S", type=float, help="for tr I (default: the smallest of the grid)")
    parser.add_argument("--draws", metavar="D", type=int, default=32, help="for mirrored members; 0 leaves them out (default 32)")
    parser.add_argument("--phase", metavar="NAME", help="ES phase (default: the first)")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(args: argparse.Namespace) -> int:
    for name, least in LEAST.items():
        if getattr(args, name) < least:
            raise UsageError("out of range", value=getattr(args, name), expected=f"at least {least}", key=f"--{name}")
    if args.draws == 1:
        raise UsageError("one draw has no variance", value=1, expected="0, or several", key="--draws")
    if args.fisher_sigma is not None and not 0 < args.fisher_sigma < float("inf"):
        raise UsageError("out of range", value=args.fisher_sigma, expected="above 0", key="--fisher-sigma")
    sigmas = sigma_grid(args.sigmas) if args.sigmas else []
    from es_mpi.runner.measure import measure_diversity

    def show(found: dict[str, Any]) -> None:
        print(json.dumps(found, indent=2) if args.json else "\n\n".join(as_text(found)), flush=True)

    return measure_diversity(
        args.config, args.overrides, phase=args.phase, sigmas=sigmas, members=args.members, samples=args.samples,
        prompts=args.prompts, fisher_sigma=args.fisher_sigma, draws=args.draws, show=show,
    )  # fmt: skip


def as_text(found: dict[str, Any]) -> Iterator[str]:
    """Sizes and Fisher information, the grid, what the grid says, mirrored members."""
    sizes = f"{found['members']} members, {found['samples']} responses at temperature 1 to each of {found['prompts']} prompts"
    traces = [f"{one['value']:.4g} +- {one['error']:.2g} at sigma {one['sigma']:.3g}" for one in found["traces"]]
    yield pairs(
        [
            ("diversity", f"{sizes}, {found['ranks']} rank(s), {duration(found['seconds'])}"),
            ("tr I", ", ".join(traces)),
            ("ceiling", f"log {found['members']} = {found['ceiling']:.4f} nats"),
        ]
    )
    header = ("sigma", "JS", "predicted", "measured/pred.", f"JS for N={found['population']}", "success", "JS of success",
              "any right", "gained", "predicted gain")  # fmt: skip
    rows = [
        (
            f"{x['sigma']:.3g}", f"{x['js']:.4g}", f"{x['predicted']:.4g}", _number(x["ratio"]), f"{x['js_population']:.4g}",
            f"{x['success']:.1%}", f"{x['js_success']:.4f}", f"{x['population_success']:.1%}", f"{x['success_gain']:.4f}",
            f"{x['success_gain_from_js']:.4f}",
        )
        for x in found["levels"]
    ]  # fmt: skip
    yield table(header, rows)
    limit = "at no sigma of the grid" if found["holds_to"] is None else f"up to sigma {found['holds_to']:.3g}"
    yield pairs(
        [
            ("holds", f"{limit}: measured within a quarter of (sigma^2 / 2) (1 - 1/N) tr I"),
            ("slope", f"in log-log {_number(found['slope'])} there, {_number(found['slope_of_all'])} over all; theory: 2"),
        ]
    )
    if found["mirrored"]:
        names = ("base_correlation", "kappa_base", "pair_correlation", "kappa_pair")
        what = f"{found['draws']} draws, sigma {found['mirrored_sigma']:.3g}"
        header = (what, "corr(+,0)", "kappa_base", "corr(+,-)", "kappa_pair")
        yield table(header, [(row["target"], *(_number(row[name], 4) for name in names)) for row in found["mirrored"]])


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
