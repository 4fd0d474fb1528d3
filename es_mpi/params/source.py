"""Find a model: a folder on this machine, or an id on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from es_mpi.errors import UsageError

WANTED = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt")


def resolve(path: str) -> Path:
    """The folder of `path`: itself when it exists or looks like a path, else the hub snapshot of that id.

    A snapshot that is in the local cache needs no network. Raises UsageError when there is neither.
    """
    folder = Path(path).expanduser()
    if folder.exists() or path.startswith((".", "/", "~")) or path.count("/") != 1:
        return folder
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
