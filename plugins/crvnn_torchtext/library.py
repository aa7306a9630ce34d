"""Access to torchtext itself, the extra ``torchtext``, and safeguards around its downloads.

torchtext is imported on first use only: a trained model is loaded and used without it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import ssl
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from crvnn_core.errors import CrvnnError


def torchtext() -> Any:
    """The module ``torchtext``; ``CrvnnError`` says how to install it if it is missing or another version."""
    advice = "pip install 'crvnn[torchtext]'"
    try:
        text = importlib.import_module("torchtext")
    except (ImportError, OSError) as error:  # OSError: later releases are binaries for an older torch
        raise CrvnnError(f"torchtext cannot be imported ({first_line(error)}): {advice}") from error
    if not hasattr(text.data, "Field"):
        raise CrvnnError(f"torchtext {text.__version__} has no data.Field; crvnn needs 0.6.0: {advice}")
    return text


@contextlib.contextmanager
def guarded(text: Any) -> Iterator[None]:
    """Redirect torchtext's output to standard error, silence its warnings, and keep its downloads safe.

    On its own it disables certificate verification for the whole process, and extracts archives without a filter.
    """
    bar = partial(text.vocab.tqdm, disable=None)  # tqdm shows nothing if there is no terminal
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        changes: list[tuple[Any, str, Any]] = [
            (text.vocab, "tqdm", bar),
            (text.utils, "tqdm", bar),
            (ssl, "_create_default_https_context", ssl.create_default_context),
            (ssl, "_create_unverified_context", ssl.create_default_context),
        ]
        if hasattr(tarfile, "data_filter"):  # since Python 3.11.4
            changes.append((tarfile.TarFile, "extraction_filter", staticmethod(tarfile.data_filter)))
        for owner, name, value in changes:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


@contextlib.contextmanager
def staging(directory: Path, keep: Callable[[str], bool] = lambda name: False) -> Iterator[Path]:
    """A temporary directory to download into, whose files move to ``directory`` when the block ends without an error.

    An interrupted download leaves no incomplete file in ``directory``, and concurrent processes do not collide.

    :param keep: which files of ``directory`` are linked into the temporary one, by name.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".download-") as name:
        temporary = Path(name)
        for path in [path for path in directory.iterdir() if path.is_file() and keep(path.name)]:
            try:
                os.link(path, temporary / path.name)
            except OSError:  # not every file system has links
                shutil.copyfile(path, temporary / path.name)
        there = {path.name for path in temporary.iterdir()}
        yield temporary
        for path in [path for path in temporary.iterdir() if path.name not in there]:
            try:
                path.replace(directory / path.name)
            except OSError:
                if not (directory / path.name).exists():
                    raise  # otherwise another process has downloaded it


def first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
