"""Writes that a crash or a full disk cannot leave half done."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from es_mpi.errors import UsageError


def sync_dir(path: Path) -> None:
    """Put the names in folder `path` on disk: a file's own fsync does not cover the entry that names it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(fd)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that takes the place of `path` when the block ends without an error, durably and at once."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_dir(path.parent)


@contextmanager
def new_folder(target: Path, *, key: str) -> Iterator[Path]:
    """Yield an empty folder that gets the name `target` when the block ends without an error; else nothing is left of it.

    Raises UsageError, about the option `key`, when something of that name exists or the disk refuses.
    """
    if target.exists():
        raise UsageError("the output folder exists", value=str(target), key=key, remedy="name a folder that does not exist")
    partial = target.with_name(f".{target.name}.tmp-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        yield partial
        partial.rename(target)
    except OSError as error:
        raise UsageError(f"the folder cannot be written: {error.strerror}", value=str(target), key=key) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class AppendFile:
    """A file that grows by whole records: an append arrives in full or, when it raises, not at all.

    Only a killed process can leave a part of a record behind, and only as the last one. With `durable` an append
    returns after the record is on disk, otherwise after the kernel has it.
    """

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        self.path = path
        self._durable = durable
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        sync_dir(path.parent)

    def append(self, record: bytes) -> None:
        """Raises OSError (disk full, quota, input/output error); the file then ends where it ended before."""
        end = os.fstat(self._fd).st_size
        try:
            rest = memoryview(record)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            if self._durable:
                os.fsync(self._fd)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._fd, end)
            raise

    def close(self) -> None:
        os.close(self._fd)
