"""What the documents name exists: links, commands, config keys, files, functions; and whole configs in them load."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import es_mpi
from es_mpi import errors
from es_mpi.cli import COMMANDS
from es_mpi.config import load_config
from es_mpi.config.document import keys

REPO = Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in (REPO / "README.md", REPO / "CHANGELOG.md", *sorted((REPO / "docs").glob("*.md"))) if path.exists()]
FOLDERS = "es_mpi|tests|configs|docs|launch"
KEYS = {path for path, _ in keys()}
SECTIONS = {path.partition(".")[0] for path in KEYS}

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"\bes-mpi ([a-z][\w-]*)")
PATH = re.compile(rf"(?<![\w./-])(?:\./)?((?:{FOLDERS})/[\w/.-]*\w)")
FUNCTION = re.compile(r"\bes_mpi\.[\w.]*\w")
DOTTED = re.compile(r"(\w+)((?:\.(?:\w+|<\w+>))+)")
OVERRIDE = re.compile(rf"(?<![\w./-])((?:{'|'.join(sorted(SECTIONS))})(?:\.\w+)+)=")


def code(text: str) -> list[str]:
    """What stands as code: fenced and indented blocks, and inline spans."""
    blocks = [body for _, _, body in FENCE.findall(text)]
    rest = FENCE.sub("", text)
    lines = [line for line in rest.splitlines() if line.startswith("    ")]
    return [*blocks, *lines, *SPAN.findall(rest)]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(text: str, folder: Path) -> Iterator[str]:
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = folder / name
        there = text if not name else path.read_text(encoding="utf-8") if path.is_file() else ""
        if not path.exists() or (anchor and anchor not in anchors(there)):
            yield target


def unknown_commands(text: str, folder: Path) -> Iterator[str]:
    for piece in code(text):
        yield from (name for name in COMMAND.findall(piece) if name not in COMMANDS)


def is_key(path: str) -> bool:
    """A key, a section of keys, or an option of a task; a phase has any name."""
    path = re.sub(r"^phases\.[^.]+", "phases.<name>", path)
    return path in KEYS or path.startswith("task.options.") or any(key.startswith(f"{path}.") for key in KEYS)


def unknown_keys(text: str, folder: Path) -> Iterator[str]:
    for piece in code(text):
        yield from (path for path in OVERRIDE.findall(piece) if not is_key(path))
        whole = DOTTED.fullmatch(piece)
        if whole and whole[1] in SECTIONS and not is_key(piece) and not is_module(piece):
            yield piece


def is_module(name: str) -> bool:
    """Whether `name` is a module of ours, written without `es_mpi.`, as architecture.md's tables do."""
    path = REPO / "es_mpi" / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def missing_files(text: str, folder: Path) -> Iterator[str]:
    for piece in code(text):
        yield from (path for path in PATH.findall(piece) if not (REPO / path).exists())


@cache
def names_in(module: str) -> dict[str, set[str]]:
    """Top-level names of a module (imported ones too), each with the names of its body, if it is a class."""
    path = REPO / "es_mpi" / module.replace(".", "/")
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    statements = ast.parse(source).body
    return {name: _members(statement) for statement in statements for name in _names(statement)}


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _members(node: ast.stmt) -> set[str]:
    return {name for statement in node.body for name in _names(statement)} if isinstance(node, ast.ClassDef) else set()


def unknown_functions(text: str, folder: Path) -> Iterator[str]:
    for piece in code(text):
        for name in FUNCTION.findall(piece):
            if not exists(name.partition(".")[2]):
                yield name


def exists(name: str) -> bool:
    """Whether `name` (below es_mpi) is a module, or a name of one, or a member of a class of one."""
    if is_module(name):
        return True
    parts = name.split(".")
    for end in (len(parts) - 1, len(parts) - 2):
        if end > 0 and is_module(".".join(parts[:end])):
            found = names_in(".".join(parts[:end]))
            rest = parts[end:]
            return rest[0] in found and (len(rest) == 1 or rest[1] in found[rest[0]])
    return False


CHECKS: tuple[Callable[[str, Path], Iterator[str]], ...] = (
    broken_links, unknown_commands, unknown_keys, missing_files, unknown_functions,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_names_exists(document: Path, check: Callable[[str, Path], Iterator[str]]) -> None:
    assert not list(check(document.read_text(encoding="utf-8"), document.parent))


def whole_configs(text: str) -> list[str]:
    """The fenced YAML blocks that have all required sections."""
    blocks = [body for _, language, body in FENCE.findall(text) if language == "yaml"]
    return [body for body in blocks if {"model", "task", "phases"} <= set(re.findall(r"^(\w+):", body, re.MULTILINE))]


CONFIGS = [(path.name, body) for path in DOCUMENTS for body in whole_configs(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("document", "body"), CONFIGS, ids=[name for name, _ in CONFIGS])
def test_whole_configs_in_a_document_load(document: str, body: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(body)
    load_config(path)


def test_configs_are_found() -> None:
    whole = "model: {path: x}\ntask: {name: largest}\nphases:\n  warm: {kind: es}\n"
    assert whole_configs(f"text\n```yaml\n{whole}```\n```yaml\nmodel: {{path: x}}\n```\n") == [whole]
    assert CONFIGS


def test_the_changelog_has_this_version() -> None:
    assert f"\n## [{es_mpi.__version__}]" in (REPO / "CHANGELOG.md").read_text(encoding="utf-8")


def test_architecture_lists_every_exit_code() -> None:
    text = (REPO / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert {getattr(errors, name) for name in vars(errors) if name.startswith("EXIT_")} <= listed


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (broken_links, "[a](docs/nowhere.md)"),
        (broken_links, "[a](docs/method.md#nowhere)"),
        (broken_links, "# Here\n[a](#there)"),
        (unknown_commands, "`es-mpi trian configs/toy.yaml`"),
        (unknown_commands, "    es-mpi paint a b"),
        (unknown_commands, "```\nes-mpi evil\n```"),
        (unknown_keys, "`phases.warm.popluation`"),
        (unknown_keys, "`engine.thread`"),
        (unknown_keys, "    es-mpi train x run.sed=1"),
        (missing_files, "`es_mpi/nowhere.py`"),
        (missing_files, "`./launch/nowhere`, `configs/toy.yaml`"),
        (unknown_functions, "`es_mpi.estimator.zscores`"),
        (unknown_functions, "`es_mpi.params.store.MasterStore.nothing`"),
    ],
)
def test_what_is_wrong_is_seen(check: Callable[[str, Path], Iterator[str]], text: str) -> None:
    assert list(check(text, REPO))


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (broken_links, "# Same engine: here\n[a](#same-engine-here) [b](docs/method.md#noise) [c](https://x.y/z#w)"),
        (unknown_commands, "the command line es-mpi is; `es-mpi train CONFIG`, `es-mpi --help`"),
        (unknown_keys, "`phases.<name>.sigma` `phases.warm` `task.options.form` `engine.port` `run.seed` `numpy.random`"),
        (missing_files, "`es_mpi/config/schema.py` `runs/NAME` `docs/method.md`"),
        (unknown_functions, "`es_mpi.params.store.MasterStore.digest` `es_mpi.config` `es_mpi.cli.COMMANDS`"),
    ],
)
def test_what_is_right_is_not_accused(check: Callable[[str, Path], Iterator[str]], text: str) -> None:
    assert not list(check(text, REPO))
