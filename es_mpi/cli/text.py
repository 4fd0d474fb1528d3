"""Numbers and tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def size(count: float) -> str:
    """Bytes in the unit that suits: `512 B`, `1.50 GiB`."""
    unit = "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024:
            break
        count, unit = count / 1024, larger
    return f"{count:.0f} B" if unit == "B" else f"{count:.2f} {unit}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.0f} min" if hours < 1.5 else f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} d"


def pairs(rows: Iterable[tuple[str, object]]) -> str:
    """Names and values, values aligned."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a header line, first column to the left, others to the right."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
