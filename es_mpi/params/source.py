"""Find a model: a folder on this machine, or an id on the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path

from es_mpi.errors import UsageError

WANTED = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt")


def is_hub_id(path: str) -> bool:
    """Whether `owner/name` is meant for the hub. Where a folder `owner` exists (or is ours, `models`), a missing folder is."""
    owner = Path(path).parent
    return bool(re.fullmatch(r"[\w-]+/[\w.-]+", path)) and not (Path(path).exists() or owner.exists() or owner.name == "models")


def resolve(path: str) -> Path:
    """The folder that `path` names, or the hub snapshot of that id.

    A snapshot that is in the local cache needs no network. Raises UsageError when there is neither.
    """
    if not is_hub_id(path):
        return Path(path).expanduser()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        return Path(snapshot_download(path, allow_patterns=list(WANTED)))
    except (RepositoryNotFoundError, LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        raise UsageError(
            "no such folder, and the hub does not give such a model",
            value=path,
            expected="a Hugging Face model folder, or an id on the hub",
            key="model.path",
            remedy="es-mpi model NAME --out DIR makes an embedded model; "
            f"the hub said: {str(error).strip().splitlines()[0][:200]}",
        ) from error
