"""The command line: picks a command, turns errors into messages and exit codes. Nothing heavy is imported here.

Each command is a module with `configure(parser)` and `run(args) -> exit code`, imported when it is asked for.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import es_mpi
from es_mpi.comm.launcher import detect
from es_mpi.errors import EXIT_INTERNAL, EXIT_OK, EsMpiError, UsageError, did_you_mean

EXIT_INTERRUPTED, EXIT_PIPE = 130, 141  # 128 + SIGINT, 128 + SIGPIPE, as shells report them
OVERRIDES = "[key=value ...]"

COMMANDS = {
    "train": (f"CONFIG {OVERRIDES}", "train, alone or under mpirun / srun"),
    "resume": (f"RUN_DIR {OVERRIDES}", "continue a run, with any number of ranks"),
    "eval": (f"MODEL_OR_RUN [--tasks A,B] --out DIR {OVERRIDES} | --regrade DIR", "Pass@K, Maj@K, greedy on held-out problems"),
    "compare": ("DIR DIR ... [--html FILE]", "paired differences of evaluations, with intervals and tests"),
    "replay": ("RUN_DIR --step N --out DIR", "weights of any step from base model and journal"),
    "drift": ("BASE MODEL [--null RUN]", "how far training moved the weights, beside what random rewards give"),
    "prune": ("BASE MODEL (--sparsity S | --threshold T) --out DIR", "keep only the largest changes of training"),
    "probe": (f"CONFIG [--sigmas A,B] {OVERRIDES}", "which sigma to train with, measured before training"),
    "diversity": (f"CONFIG [--sigmas A,B] {OVERRIDES}", "how different the members' policies are, against theory"),
    "study": ("STUDY [--launcher WORDS | --array | --table]", "a grid of runs, and one table of them with intervals"),
    "check": (f"CONFIG {OVERRIDES}", "resolve, validate and print a config"),
    "plan": (f"CONFIG --ranks R [--gpu NAME] {OVERRIDES}", "memory, bytes, rough seconds; what binds"),
    "show": ("RUN_DIR", "progress, last failures, how to resume"),
    "model": ("NAME --out DIR", "make a model that comes with a package"),
    "bench": (f"step CONFIG {OVERRIDES} | noise [--params N]", "speed as ratios: a whole update; the noise library"),
    "doctor": (f"[CONFIG {OVERRIDES}]", "versions, launcher, devices, noise self-test; a run's start-up checks"),
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are UsageErrors, like those of a config."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", expected=self.usage or "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except EsMpiError as error:
        if not getattr(error, "silent", False):  # an agreed error is told by one rank
            print(f"{_speaker()}: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough; what Python still holds for it goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except Exception:  # the last frame before the shell: a fault of ours has its own exit code
        import traceback  # not needed by a start that goes well

        traceback.print_exc()
        print(f"{_speaker()}: internal error", file=sys.stderr, flush=True)
        return EXIT_INTERNAL


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return EXIT_OK
    if argv[0] == "--version":
        print(f"es-mpi {es_mpi.__version__}")
        return EXIT_OK
    name = argv[0]
    if name not in COMMANDS:
        raise UsageError("no such command", value=name, expected=", ".join(COMMANDS), remedy=did_you_mean(name, COMMANDS))
    gc.disable()  # a start makes objects that stay: sifting them takes a sixth of the time that `check` has
    command = importlib.import_module(f"es_mpi.cli.{name}")
    gc.freeze()
    gc.enable()
    usage = COMMANDS[name][0]
    parser = Parser(prog=name, usage=f"es-mpi {name} {usage}", description=command.__doc__, allow_abbrev=False)
    command.configure(parser)
    args, rest = parser.parse_known_args(argv[1:])
    args.overrides = [*getattr(args, "overrides", []), *rest]
    if rest and (OVERRIDES not in usage or any(word.startswith("-") for word in rest)):
        parser.error(f"does not understand {' '.join(rest)}")
    code: int = command.run(args)
    return code


def _help() -> str:
    width = max(len(f"{name} {usage}") for name, (usage, _) in COMMANDS.items())
    lines = [f"  {f'{name} {usage}':<{width}}  {summary}" for name, (usage, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "es-mpi: evolution strategies for language models over MPI ranks",
            "",
            "usage: es-mpi COMMAND ...        (es-mpi COMMAND --help says more; es-mpi --version)",
            "",
            *lines,
            "",
            "CONFIG is YAML (docs/configuration.md); key=value overrides it by dot path, e.g. phases.warm.sigma=2e-3",
            "exit codes: 0 done, 2 usage or config, 70 internal error, 75 try again (resume), 76 ranks disagree",
        ]
    )


def _speaker() -> str:
    """Who an error message is from: under a launcher its rank and host."""
    launch = detect(os.environ)
    return "es-mpi" if launch is None else f"es-mpi [rank {launch.rank}, {os.uname().nodename}]"
