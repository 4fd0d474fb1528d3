"""House rules that a reader cannot check by eye: who imports whom, sizes, nothing evaluated, no global random state.

The tables are those of docs/architecture.md, so that document and code cannot part. Sources are only parsed, never imported.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

REPO = Path(__file__).resolve().parents[2]
PACKAGE = "es_mpi"
LONGEST_FILE, LONGEST_FUNCTION = 300, 60
LONGER_FILES = {"config.schema"}
SHARED_BY_PHASES = {f"phases.{name}" for name in ("context", "rollout", "gradient", "exploration")}
AT_START = {"numpy", "omegaconf", "yaml"}  # libraries that `es-mpi --help`, check and plan may import
PRIVATE_GENERATORS = {"Generator", "PCG64", "Philox", "SeedSequence", "default_rng"}  # of numpy.random, each with a seed
GLOBAL_TORCH = re.compile(
    r"torch\.((random\.|cuda\.)?(manual_seed(_all)?|seed|set_rng_state)|rand\w*|normal|bernoulli|multinomial)"
)


class Import(NamedTuple):
    """`target` as written, with the imported name where that is a module of ours; `at_start` unless inside a function."""

    target: str
    at_start: bool


def sources() -> dict[str, Path]:
    """Module names below es_mpi ("" for the package itself) to files."""
    found = {}
    for path in sorted((REPO / PACKAGE).rglob("*.py")):
        parts = path.relative_to(REPO / PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


SOURCES = sources()


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(SOURCES[module].read_text(encoding="utf-8"))


def ours(target: str) -> str | None:
    """The module below es_mpi that `target` names, or None for a library."""
    head, _, rest = target.partition(".")
    if head != PACKAGE:
        return None
    return rest if rest in SOURCES else ours(target.rpartition(".")[0])


def imports(node: ast.AST, at_start: bool = True) -> Iterator[Import]:
    """Every import below `node` but those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, at_start) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: a relative import"
            yield from (Import(f"{child.module}.{alias.name}", at_start) for alias in child.names)
        yield from imports(child, at_start and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def table(header: str) -> dict[str, list[str]]:
    """First cell to the names in the second, of the table of docs/architecture.md that starts with `header`."""
    text = (REPO / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = text.partition(f"\n{header}\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert rows, f"docs/architecture.md has no table {header}"
    cells = [row.strip("| ").split(" | ") for row in rows]
    return {first.strip("`"): re.findall(r"`([\w.]+)`", second) for first, second in cells}


LAYERS = {name: int(first.split()[0]) for first, names in table("| layer | modules |").items() for name in names}
NEIGHBOURS = table("| module | may also import, in its own layer |")
OWNERS = table("| library | only in |")


def within(module: str, names: list[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def layer(module: str) -> int:
    """The layer of the longest name in the table that holds `module`."""
    if not module:
        return 0  # es_mpi itself: the version
    fits = [name for name in LAYERS if within(module, [name])]
    assert fits, f"docs/architecture.md puts {module} in no layer"
    return LAYERS[max(fits, key=len)]


def may_import(module: str, target: str) -> bool:
    if layer(module) != layer(target):
        return layer(target) < layer(module)
    package = module.split(".")[0]
    if package == "phases" and target.split(".")[0] == "phases":
        return target in SHARED_BY_PHASES  # phases never import each other
    return package == target.split(".")[0] or within(target, NEIGHBOURS.get(module, NEIGHBOURS.get(package, [])))


@pytest.mark.parametrize("module", SOURCES)
def test_only_lower_layers_and_named_neighbours_are_imported(module: str) -> None:
    targets = {ours(found.target) for found in imports(tree(module))} - {None, module}
    wrong = [target for target in targets if not may_import(module, str(target))]
    assert not wrong, f"{module} (layer {layer(module)}) imports {wrong} (layers {[layer(str(t)) for t in wrong]})"


@pytest.mark.parametrize("module", SOURCES)
def test_each_library_is_imported_by_its_owners_only(module: str) -> None:
    libraries = {found.target.split(".")[0] for found in imports(tree(module))} - {PACKAGE} - sys.stdlib_module_names
    assert not {library for library in libraries if not within(module, OWNERS.get(library, []))}


def test_the_tables_of_the_document_name_nothing_that_is_gone() -> None:
    named = {*LAYERS, *NEIGHBOURS, *(name for names in (*NEIGHBOURS.values(), *OWNERS.values()) for name in names)}
    assert not named - set(SOURCES)
    used = {found.target.split(".")[0] for module in SOURCES for found in imports(tree(module))}
    assert not set(OWNERS) - used


def loaded_with(module: str) -> set[str]:
    """`module`, its packages, and all of ours that importing it imports."""
    loaded: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in loaded:
            loaded.add(name)
            targets = {ours(found.target) for found in imports(tree(name)) if found.at_start}
            waiting += [name.rpartition(".")[0], *(target for target in targets if target is not None)]
    return loaded


def test_the_command_line_imports_nothing_heavy_at_its_start() -> None:
    loaded = set().union(*(loaded_with(module) for module in SOURCES if within(module, ["cli"])))
    heavy = {
        (module, library)
        for module in loaded
        for library in OWNERS
        if any(found.at_start and within(found.target, [library]) for found in imports(tree(module)))
        and library not in AT_START
    }
    assert not heavy


def too_long(source: str, limit: int = LONGEST_FUNCTION) -> list[str]:
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [node.name for node in functions if (node.end_lineno or 0) - node.lineno + 1 >= limit]


def forbidden(source: ast.AST) -> Iterator[str]:
    """What no file of ours may hold: bare excepts, evaluated text, randomness from anywhere but a seeded private generator."""
    seeded = {id(node.value) for node in ast.walk(source) if isinstance(node, ast.Attribute) and node.attr == "manual_seed"}
    for node in ast.walk(source):
        where = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{where}: bare except"
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("eval", "exec"):
                yield f"{where}: {name}()"
            if name.rpartition(".")[2] in PRIVATE_GENERATORS and not (node.args or node.keywords or id(node) in seeded):
                yield f"{where}: {name}() without a seed"
            if GLOBAL_TORCH.fullmatch(name) and not any(keyword.arg == "generator" for keyword in node.keywords):
                yield f"{where}: {name} uses torch's global generator"
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if owner in ("np.random", "numpy.random") and node.attr not in PRIVATE_GENERATORS:
                yield f"{where}: {owner}.{node.attr} uses numpy's global generator"
    for found in imports(source):
        if within(found.target, ["random", "numpy.random"]):
            yield f"import of {found.target}"


@pytest.mark.parametrize("module", SOURCES)
def test_house_rules(module: str) -> None:
    source = SOURCES[module].read_text(encoding="utf-8")
    assert len(source.splitlines()) < LONGEST_FILE or module in LONGER_FILES
    assert not too_long(source)
    assert not list(forbidden(tree(module)))


@pytest.mark.parametrize(
    "source",
    [
        "try: pass\nexcept: pass",
        "eval('1')",
        "exec('1')",
        "import random",
        "from random import shuffle",
        "from numpy.random import rand",
        "np.random.seed(1)",
        "x = numpy.random.normal()",
        "np.random.default_rng()",
        "np.random.Generator(np.random.PCG64())",
        "torch.Generator()",
        "torch.manual_seed(1)",
        "torch.cuda.manual_seed_all(1)",
        "torch.randn(3)",
    ],
)
def test_a_broken_rule_is_seen(source: str) -> None:
    assert list(forbidden(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "try: pass\nexcept ValueError: pass",
        "model.eval()",
        "np.random.Generator(np.random.PCG64(seed)).normal()",
        "torch.Generator().manual_seed(seed)",
        "torch.randn(3, generator=mine)",
    ],
)
def test_what_is_allowed_is_not_accused(source: str) -> None:
    assert not list(forbidden(ast.parse(source)))


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("errors", "config.schema"),  # upwards
        ("estimator", "phases.es"),
        ("checkpoint.journal", "comm.port"),  # sideways
        ("tasks.batches", "engine.port"),
        ("phases.context", "phases.es"),
    ],
)
def test_a_broken_layer_is_seen(module: str, target: str) -> None:
    assert not may_import(module, target)


def test_a_long_function_is_seen() -> None:
    assert too_long("def f():\n" + "    x = 1\n" * 4, limit=5) == ["f"]
    assert too_long("def f():\n" + "    x = 1\n" * 3, limit=5) == []
