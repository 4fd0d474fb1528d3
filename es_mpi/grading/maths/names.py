"""What an answer says beside its value: a name in front (`x =`), a rounded value behind, a note on the domain."""

from __future__ import annotations

from es_mpi.grading.maths.node import Node

_DOMAINS = frozenset("ZNRQC")
_FUNCTIONS = frozenset("PQRShfgFG")
_ASSIGNS = frozenset({"=", "~", "in"})


def is_name(node: Node) -> bool:
    """Can it stand in front of `=` as the name of the value: x, a_n, f(x), P(x), AB, S:T, (x, y)?"""
    if node.kind == "sym":
        return not node.text.startswith("set ")
    if node.kind == "call":
        return node.text[0] in "fgFG" and all(arg.kind == "sym" for arg in node.args)
    if node.kind == "mul":
        return _is_points(_factors(node)) or _is_application(*node.args)
    if node.kind == "unit":
        return is_name(node.args[0])
    return node.kind in ("tuple", "ratio") and all(is_name(arg) for arg in node.args)


def _factors(node: Node) -> list[Node]:
    return [factor for arg in node.args for factor in _factors(arg)] if node.kind == "mul" else [node]


def _is_points(factors: list[Node]) -> bool:
    """AB, ABC, and m A for the measure of an angle: letters that name points, not factors."""
    letters = [factor.text if factor.kind == "sym" else "" for factor in factors]
    return all(text[:1].isupper() for text in letters[1:]) and (letters[0][:1].isupper() or letters[0] == "m")


def _is_application(function: Node, argument: Node) -> bool:
    """P(x), h(t) and the inverse of f at x, which read as products."""
    if function.kind == "pow":
        return function.args[0].kind == "sym" and function.args[0].text in _FUNCTIONS and argument.kind == "sym"
    return function.kind == "sym" and function.text in _FUNCTIONS and argument.kind == "sym"


def label(node: Node) -> tuple[Node | None, Node]:
    """The name in front of a value (the first of several) and the value; None where there is no name."""
    if node.kind == "rel" and set(node.text.split()) <= _ASSIGNS and all(is_name(arg) for arg in node.args[:-1]):
        return node.args[0], node.args[-1]
    return None, node


def plain(node: Node) -> Node:
    """Without what only repeats or comments the value: `= 2.5` behind a constant, `~ 1.36`, `k in Z`."""
    if node.kind == "rel" and "~" in node.text and not is_name(node.args[0]):
        return plain(_cut(node, node.text.split().index("~")))
    if node.kind == "rel" and set(node.text.split()) == {"="} and not node.symbols():
        return node.args[-1]
    if node.kind == "list":
        kept = [arg for arg in node.args if not _is_domain(arg)]
        if 0 < len(kept) < len(node.args):
            return plain(kept[0]) if len(kept) == 1 else Node("list", tuple(kept), node.text)
    return node


def _cut(node: Node, relations: int) -> Node:
    if relations == 0:
        return node.args[0]
    return Node("rel", node.args[: relations + 1], " ".join(node.text.split()[:relations]))


def _is_domain(node: Node) -> bool:
    """k in Z, with or without the double stroke."""
    if node.kind != "rel" or node.text != "in":
        return False
    domain = node.args[1]
    return domain.kind == "sym" and domain.text.removeprefix("set ") in _DOMAINS
