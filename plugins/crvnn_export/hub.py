"""The Hugging Face hub: a repository is a run directory with a model card."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crvnn_core.errors import CrvnnError

#: What is fetched of a repository: nothing that would have to be trusted to be opened.
_FILES = ("*.toml", "*.json", "*.jsonl", "*.safetensors", "*.md", "plugins/*.py")
_ADDRESS = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")


def fetch(address: str) -> Path:
    """The run directory of ``owner/name`` or ``owner/name@revision``, in the cache of ``huggingface_hub``."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise CrvnnError(f"hf:{address}: an address on the hub is hf:owner/name or hf:owner/name@revision")
    hub = _library(f"hf:{address}")
    try:
        return Path(
            hub.snapshot_download(
                match["repository"], revision=match["revision"], allow_patterns=list(_FILES)
            )
        )
    except Exception as error:
        raise _said(f"hf:{address} cannot be fetched", error) from error


def push(
    files: Mapping[str, Path | str],
    repository: str,
    *,
    private: bool = False,
    revision: str | None = None,
    message: str = "Upload with crvnn",
) -> str:
    """Upload files to a model repository, which is created if need be; the address of the commit is returned."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise CrvnnError(f"{repository}: a repository of the hub is called owner/name")
    hub = _library("'crvnn share push'")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            place = Path(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                place.write_text(content, encoding="utf-8")
            else:
                shutil.copyfile(content, place)
        try:
            api = hub.HfApi(library_name="crvnn")
            api.create_repo(repository, private=private, exist_ok=True)
            if revision is not None:
                api.create_branch(repository, branch=revision, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repository, folder_path=folder, revision=revision, commit_message=message
            )
        except Exception as error:
            raise _said(f"{repository} cannot be pushed", error) from error
    return str(commit.commit_url)


def first_line(error: Exception) -> str:
    """The first line of an error's message that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _library(what: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise CrvnnError(f"{what} needs the package huggingface_hub: install 'crvnn[hub]'") from None
    return huggingface_hub


def _said(what: str, error: Exception) -> Exception:
    """A failure of the hub as an error of ours; the error itself if it is a mistake in code."""
    from huggingface_hub import errors

    status = getattr(getattr(error, "response", None), "status_code", None)
    # Which library it talks HTTP with depends on its version.
    lost = type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "requests")
    if isinstance(error, errors.RevisionNotFoundError):
        reason = "the repository has no such revision"
    elif isinstance(error, errors.RepositoryNotFoundError) or status in (401, 403):
        reason = (
            f"the hub answers {status}. Is there such a repository? 'hf auth login' gives access to yours"
        )
    elif isinstance(error, errors.LocalEntryNotFoundError) or lost:
        reason = f"the hub cannot be reached, and the cache has no copy ({first_line(error)})"
    elif isinstance(error, (errors.HFValidationError, OSError)):
        reason = first_line(error)
    else:
        return error
    return CrvnnError(f"{what}: {reason}")
