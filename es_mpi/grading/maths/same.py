"""Do two answers say the same? The conventions are listed in docs/grading.md, one rule each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeVar

from es_mpi.grading.maths.equations import is_solution, same_equation
from es_mpi.grading.maths.intervals import Interval, intervals, is_set_of_reals
from es_mpi.grading.maths.names import label, plain
from es_mpi.grading.maths.node import Node, Unreadable
from es_mpi.grading.maths.quantity import same_quantity
from es_mpi.grading.maths.units import same_unit, without_unit
from es_mpi.grading.maths.words import same_words

T = TypeVar("T")
MAX_ENTRIES = 100
MAX_SIGNS = 6  # independent plus-or-minus signs in one tuple


def same(gold: Node, answer: Node) -> bool:
    """Does `answer` say what `gold` says? Not symmetric: a gold may be rounded, an answer only to six digits."""
    gold, answer = plain(gold), plain(answer)
    (name, value), (other, given) = label(gold), label(answer)
    if (name is None) != (other is None) and (answer if other is None else gold).kind != "rel":
        gold, answer = plain(value), plain(given)
    if gold == answer:
        return True
    if gold.kind == "text" or answer.kind == "text":
        return same_words(gold, answer)
    gold, answer = spread(gold), spread(answer)
    if is_set_of_reals(gold) or is_set_of_reals(answer):
        return _same_reals(gold, answer)
    if _is_several(gold) or _is_several(answer):
        return _same_collection(gold, answer)
    if gold.kind == "rel" or answer.kind == "rel":
        return _same_relation(gold, answer)
    if not same_unit(gold, answer):
        return False
    gold, answer = without_unit(gold), without_unit(answer)
    if _is_several(gold) or _is_several(answer):
        return _same_collection(gold, answer)
    return same_quantity(gold, answer)


def _is_several(node: Node) -> bool:
    return node.kind in ("list", "set", "tuple", "matrix")


def _same_reals(gold: Node, answer: Node) -> bool:
    mine, other = intervals(gold), intervals(answer)
    if mine is None or other is None:
        return gold.kind == answer.kind == "rel" and _same_chain(gold, answer)
    return _unordered(mine, other, _same_interval)


def _same_interval(gold: Interval, answer: Interval) -> bool:
    opens = (gold.low_open, gold.high_open) == (answer.low_open, answer.high_open)
    return opens and same(gold.low, answer.low) and same(gold.high, answer.high)


def _same_chain(gold: Node, answer: Node) -> bool:
    """a > b > c is c < b < a."""
    flipped = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
    turned = Node("rel", answer.args[::-1], " ".join(flipped.get(r, r) for r in reversed(answer.text.split())))
    return any(
        gold.text == other.text and all(same(g, a) for g, a in zip(gold.args, other.args, strict=True))
        for other in (answer, turned)
    )


def _same_relation(gold: Node, answer: Node) -> bool:
    """`x = 3` is 3, and `f(x) = x + 1` is `y = x + 1`; other equations are the same up to a factor."""
    (mine, value), (other, given) = label(gold), label(answer)
    if mine is not None and other is not None:
        return not _contradict(mine, other, value) and same(value, given)
    if gold.kind == answer.kind == "rel":
        return same_equation(gold, answer) or _same_chain(gold, answer)
    return gold.kind == "rel" and answer.kind != "rel" and is_solution(gold, answer)


def _contradict(mine: Node, other: Node, value: Node) -> bool:
    """x = 3 is not y = 3; but the name of a function is free, and so is one of several letters."""
    letters = mine.kind == other.kind == "sym"
    return letters and mine.text.lower() != other.text.lower() and not value.symbols()


def _same_collection(gold: Node, answer: Node) -> bool:
    if gold.kind == "tuple" == answer.kind and len(gold.args) == 2 and gold.text != answer.text:
        return False  # (1, 2) is not [1, 2]
    if {gold.kind, answer.kind} & {"tuple", "matrix"}:
        if gold.kind == answer.kind == "matrix":
            return _ordered(gold.args, answer.args)
        if "set" in (gold.kind, answer.kind):
            return _unordered(_entries(gold), _entries(answer), same) if 1 in (len(gold.args), len(answer.args)) else False
        if _is_several(_first(gold)) or _is_several(_first(answer)):
            return _same_entries(gold, answer)
        mine, other = _vector(gold), _vector(answer)
        return mine is not None and other is not None and _ordered(mine, other)
    return _same_entries(gold, answer)


def _first(node: Node) -> Node:
    """The first entry of a list, to tell a list of tuples from the entries of one."""
    return label(node.args[0])[1] if node.kind == "list" and node.args else Node("num")


def _same_entries(gold: Node, answer: Node) -> bool:
    """Lists and sets. Several different names in front order the entries: a = 1, b = 2 is not 2, 1."""
    mine, other = _entries(gold), _entries(answer)
    names = [_names(mine), _names(other)]
    values, given = [label(entry)[1] for entry in mine], [label(entry)[1] for entry in other]
    if names[0] and names[1] and set(names[0]) == set(names[1]):
        found = dict(zip(names[1], given, strict=True))
        return all(same(value, found[name]) for name, value in zip(names[0], values, strict=True))
    if names[0] or names[1]:
        return _ordered(values, given)
    if "set" in (gold.kind, answer.kind):
        values, given = _distinct(values), _distinct(given)
    return _unordered(values, given, same)


def _names(entries: Sequence[Node]) -> list[str] | None:
    """The names of the entries if all have one and no two the same."""
    found = [str(label(entry)[0]) for entry in entries if label(entry)[0] is not None]
    return found if len(found) == len(entries) > 1 and len(set(found)) == len(found) else None


def _entries(node: Node) -> list[Node]:
    entries = list(node.args) if node.kind in ("list", "set") else [node]
    if len(entries) > MAX_ENTRIES:
        raise Unreadable("too many entries")
    return entries


def _vector(node: Node) -> list[Node] | None:
    """The entries of a tuple, a bare list, or a matrix of one row or column; None of anything else."""
    if node.kind == "matrix" and (len(node.args) == 1 or len(node.args[0].args) == 1):
        return [entry for row in node.args for entry in row.args]
    if node.kind in ("tuple", "list"):
        return [label(entry)[1] for entry in node.args]
    return None


def _ordered(gold: Sequence[Node], answer: Sequence[Node]) -> bool:
    if len(gold) != len(answer):
        return False
    return all(_ordered(g.args, a.args) if g.kind == a.kind == "row" else same(g, a) for g, a in zip(gold, answer, strict=True))


def _unordered(gold: Sequence[T], answer: Sequence[T], alike: Callable[[T, T], bool]) -> bool:
    """Does a pairing exist? Sameness is an equivalence, so the first fit will do."""
    left = list(answer)
    if len(left) != len(gold):
        return False
    for one in gold:
        fit = next((place for place, other in enumerate(left) if alike(one, other)), None)
        if fit is None:
            return False
        del left[fit]
    return True


def _distinct(entries: Sequence[Node]) -> list[Node]:
    found: list[Node] = []
    for entry in entries:
        if not any(same(entry, other) for other in found):
            found.append(entry)
    return found


def _has_sign(node: Node) -> bool:
    return any(part.kind in ("pm", "mp") for part in node.walk())


def spread(node: Node) -> Node:
    """Both values of every plus-or-minus: within one expression the signs go together, in a tuple each entry has its own."""
    if not _has_sign(node):
        return node
    if node.kind in ("list", "set"):
        entries = [inner for arg in node.args for inner in _values(spread(arg))]
        return Node(node.kind, tuple(entries), node.text)
    if node.kind == "tuple":
        if sum(_has_sign(arg) for arg in node.args) > MAX_SIGNS:
            raise Unreadable("too many signs")
        choices = product(*(_values(spread(arg)) for arg in node.args))
        return Node("list", tuple(Node("tuple", choice, node.text) for choice in choices), ",")
    if node.kind == "rel" and _has_sign(node.args[-1]) and not any(map(_has_sign, node.args[:-1])):
        return Node("list", tuple(Node("rel", (*node.args[:-1], v), node.text) for v in _values(spread(node.args[-1]))), ",")
    return Node("list", (_signed(node, True), _signed(node, False)), ",")


def _values(node: Node) -> tuple[Node, ...]:
    return node.args if node.kind == "list" else (node,)


def _signed(node: Node, upper: bool) -> Node:
    args = tuple(_signed(arg, upper) for arg in node.args)
    if node.kind in ("pm", "mp"):
        plus = upper == (node.kind == "pm")
        if len(args) == 1:
            return args[0] if plus else Node("neg", args)
        return Node("add", (args[0], args[1] if plus else Node("neg", (args[1],))))
    return Node(node.kind, args, node.text)
