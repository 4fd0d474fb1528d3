"""Rows of a data source: JSON Lines or Parquet files, data set folders and hub ids. Where a row stands is kept for errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from es_mpi.errors import UsageError

FILES = (".jsonl", ".json", ".ndjson", ".parquet", ".txt")  # names that mean a file even where there is none

Row = tuple[str, int, dict[str, Any]]
"""Where it stands in words, its number from 1, its fields."""


def read_rows(source: str, *, key: str, split: str = "train") -> Iterator[Row]:
    """The rows of a local file by its name's ending (.parquet, else JSON Lines), or of a data set for `datasets`.

    A data set is a folder, or an id on the hub with its configuration and split behind it if need be: `openai/gsm8k:main:test`.
    Raises UsageError (config key `key`) that names file and line.
    """
    path = Path(source)
    if path.suffix == ".parquet":
        return _parquet(path, key)
    if path.is_dir() or not (path.exists() or path.suffix in FILES):
        return _dataset(source, key, split)
    return _json_lines(path, key)


def _json_lines(path: Path, key: str) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    where = f"{path}, line {number}"
                    yield where, number, _object(line, where, key)
    except OSError as error:
        raise UsageError(f"cannot read the data file ({error.strerror})", value=str(path), key=key) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the data file is not UTF-8 text ({error})", value=str(path), key=key) from error


def _object(line: str, where: str, key: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # deep nesting, a number of thousands of digits
        raise UsageError(f"{where}: not JSON ({error})", value=line.strip()[:80], expected="one JSON object", key=key) from error
    if not isinstance(row, dict):
        raise UsageError(f"{where}: not an object", value=line.strip()[:80], expected='{"question": ..., "answer": ...}', key=key)
    return row


def _parquet(path: Path, key: str) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ImportError as error:
        raise UsageError(
            f"a Parquet file needs pyarrow ({error})", value=str(path), key=key, remedy="pip install 'es-mpi[data]'"
        ) from error
    try:
        rows = read_table(path).to_pylist()
    except (OSError, ArrowException) as error:
        raise UsageError(f"cannot read the data file ({error})", value=str(path), key=key) from error
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", number, row


def _dataset(source: str, key: str, split: str) -> Iterator[Row]:
    name, _, rest = source.partition(":")
    config, _, chosen = rest.partition(":")
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UsageError(
            f"no such file, and a data set of the hub needs the library datasets ({error})",
            value=source, expected="a JSON Lines or Parquet file", key=key, remedy="pip install 'es-mpi[data]'",
        ) from error  # fmt: skip
    try:
        rows = load_dataset(name, config or None, split=chosen or split)
    except Exception as error:  # a hub, a cache and many readers stand behind it, each with errors of its own
        raise UsageError(
            f"neither a file nor a data set that can be loaded ({type(error).__name__}: {error})",
            value=source, key=key,
            expected="a JSON Lines or Parquet file, a data set folder, or a hub id as owner/name:configuration:split",
            remedy="give the split behind the id, or the path of a downloaded file",
        ) from error  # fmt: skip
    for number, row in enumerate(rows, start=1):
        yield f"{source}, row {number}", number, dict(row)
