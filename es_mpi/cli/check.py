"""Resolve, validate and print a config. The output is YAML that loads to the same config; facts follow as comments."""

from __future__ import annotations

import argparse
import sys

from es_mpi.cli.arguments import add_config, config_of
from es_mpi.cli.inputs import layout_of, warnings
from es_mpi.cli.text import pairs
from es_mpi.config import Config, fingerprint, to_yaml
from es_mpi.errors import EXIT_OK
from es_mpi.params.layout import Layout
from es_mpi.planning import evaluations
from es_mpi.tasks.configured import evaluation_task, training_grading, training_problems, training_task
from es_mpi.tasks.preflight import gradable


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    config = config_of(args)
    layout = layout_of(config)
    task = training_task(config.task)
    grading = training_grading(config.task, config.grading, task)
    problems, notes = gradable(training_problems(config.task, task), grading.name, config.grading.bad_answers)
    for name in config.eval.tasks or (config.task.name,):
        evaluation_task(config.task, config.eval, task, name).problems("heldout")
    print(to_yaml(config))
    print("\n".join(f"# {line}" for line in pairs(facts(config, layout, len(problems))).splitlines()))
    for warning in [*notes, *warnings(config, layout)]:
        print(f"es-mpi: warning: {warning}", file=sys.stderr)
    return EXIT_OK


def facts(config: Config, layout: Layout | None, problems: int) -> list[tuple[str, object]]:
    """What follows from the config."""
    phases = [config.phases[name] for name in config.pipeline]
    updates, batch = sum(phase.updates for phase in phases), config.task.batch_size
    per_epoch = -(-problems // batch)
    model = f"{layout.trained_parameters:,} of {layout.parameters:,} parameters trained" if layout else "not on this machine"
    responses = " + ".join(f"{phase.updates} x {phase.evaluations} x {batch}" for phase in phases)
    return [
        ("model", model),
        ("updates", " + ".join(f"{phase.updates} {name}" for name, phase in zip(config.pipeline, phases, strict=True))),
        ("prompts an update", f"{batch} of {problems:,}"),
        ("epochs", f"{updates / per_epoch:.3g} of {per_epoch} updates"),
        ("responses", f"{responses} = {sum(phase.updates * phase.evaluations for phase in phases) * batch:,} at most"),
        ("evaluations", evaluations(updates, config.eval)),
        ("fingerprint", fingerprint(config)),
    ]
