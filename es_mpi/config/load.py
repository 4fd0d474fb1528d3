"""A config from YAML and `key=value` overrides, and back to YAML."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from es_mpi.config.build import build
from es_mpi.config.rules import broken_rules
from es_mpi.config.schema import Config
from es_mpi.errors import UsageError

RESOLVED_NAME = "config.yaml"
SHOWN = 20  # problems of one config; a file that is none would show all of its lines

Override = str | Mapping[str, Any]
Section = TypeVar("Section")


def load_config(path: str | Path | Mapping[str, Any], overrides: Sequence[Override] = ()) -> Config:
    """The config in the YAML file `path`, or in a mapping like such a file, with overrides laid over it in order.

    An override is text, `key=value`, or a mapping of sections.

    Interpolations (`${a.b}`, `${oc.env:NAME}`) are resolved after the overrides. Raises UsageError that lists every problem.
    """
    source = "the command" if isinstance(path, Mapping) else str(path)
    tree = OmegaConf.create(_escaped(dict(path))) if isinstance(path, Mapping) else _read(Path(path))
    for override in overrides:
        tree = _lay_over(tree, override)
    try:
        raw = OmegaConf.to_container(tree, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise UsageError(reason, key=str(getattr(error, "full_key", "") or "")) from error
    return _checked(raw, source)


def load_resolved(run_dir: str | Path, overrides: Sequence[Override] = ()) -> Config:
    """The config that a run folder was made with, overrides laid over it."""
    return load_config(Path(run_dir) / RESOLVED_NAME, overrides)


def load_section(path: str | Path, schema: type[Section]) -> Section:
    """An object of another schema class than Config from the YAML file `path`. Raises UsageError that lists every problem."""
    problems: list[UsageError] = []
    section: Section | None = build(schema, OmegaConf.to_container(_read(Path(path))), "", problems)
    if section is None or problems:
        raise _combined(problems, str(path))
    return section


def to_yaml(config: Config) -> str:
    """The whole config as YAML that loads to an equal config."""
    return OmegaConf.to_yaml(OmegaConf.create(_escaped(dataclasses.asdict(config))))


def _read(path: Path) -> DictConfig:
    try:
        tree = OmegaConf.load(path)
    except OSError as error:
        raise UsageError(
            f"cannot read the config {path}: {error.strerror or error}", remedy="give the path of a YAML file"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, OmegaConfBaseException) as error:
        raise UsageError(f"{path} is not a readable YAML file: {_where(error)}") from error
    if not isinstance(tree, DictConfig):
        raise UsageError(f"{path} is a list", expected="sections like `model:` and `phases:`")
    return tree


def _where(error: Exception) -> str:
    """A YAML error on one line, with its place."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error).splitlines()[0]
    return f"line {error.problem_mark.line + 1}: {error.problem}"


def _lay_over(tree: DictConfig, override: Override) -> DictConfig:
    if isinstance(override, Mapping):
        merged = OmegaConf.merge(tree, OmegaConf.create(_escaped(dict(override))))
        assert isinstance(merged, DictConfig)
        return merged
    key, equals, _ = override.partition("=")
    if not equals or not re.fullmatch(r"[^.\s]+(\.[^.\s]+)*", key):
        raise UsageError("not an override", value=override, expected="key=value, like phases.warm.sigma=2e-3")
    try:
        merged = OmegaConf.merge(tree, OmegaConf.from_dotlist([override]))
    except TypeError as error:  # a list over a section, or the other way round
        raise UsageError("a value of another kind than the config has there", value=override, key=key) from error
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise UsageError(f"cannot read the value: {_where(error)}", value=override, key=key) from error
    assert isinstance(merged, DictConfig)
    return merged


def _checked(raw: object, source: str) -> Config:
    problems: list[UsageError] = []
    config: Config | None = build(Config, raw, "", problems)
    if config is not None:
        config = dataclasses.replace(config, pipeline=config.pipeline or tuple(config.phases))
        problems.extend(broken_rules(config))
    if config is None or problems:
        raise _combined(problems, source)
    return config


def _combined(problems: Iterable[UsageError], source: str) -> UsageError:
    first, *rest = problems
    if not rest:
        return first
    lines = [str(problem) for problem in (first, *rest)]
    more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return UsageError("\n".join([f"{source} has {len(lines)} problems", *lines[:SHOWN], *more]))


def _escaped(value: Any) -> Any:
    """`value` with every literal `${` in text protected from interpolation."""
    if isinstance(value, dict):
        return {name: _escaped(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in value]
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value) if isinstance(value, str) else value
