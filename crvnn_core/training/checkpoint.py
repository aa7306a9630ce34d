"""Everything a run needs to resume, in one safetensors file: tensors as they are, the rest as JSON beside them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crvnn_core.errors import CrvnnError
from crvnn_core.files import replacing

_STRUCTURE, _CHECKSUM = "structure", "crc32"


def save(path: Path, tree: Mapping[str, Any]) -> None:
    """Write a tree of dictionaries, lists, tuples, numbers, texts and tensors, whole or not at all."""
    from safetensors import torch as safetensors

    tensors: dict[str, Tensor] = {}
    structure = json.dumps(_pack(tree, "", tensors))
    metadata = {_STRUCTURE: structure, _CHECKSUM: _checksum(tensors, structure)}
    # Not save_file: it writes a temporary file of its own, which a kill leaves, and ignores the umask.
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(_in_order(safetensors.save(tensors, metadata)))


def _in_order(content: bytes) -> tuple[bytes | memoryview, ...]:
    """The parts of a safetensors file with its metadata sorted: the library orders them at random."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors are aligned
    return len(text).to_bytes(8, "little"), text, memoryview(content)[end:]


def load(path: Path) -> dict[str, Any]:
    """What was saved; a missing or damaged file is one clear error."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise CrvnnError(f"{path} is missing")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dictionary
    except (OSError, ValueError, SafetensorError) as error:
        raise CrvnnError(f"{path!s:.200} is damaged: {error}") from None
    if _STRUCTURE not in metadata:
        raise CrvnnError(f"{path} was not written by crvnn: it says nothing about its structure")
    if metadata.get(_CHECKSUM) != _checksum(tensors, metadata[_STRUCTURE]):
        raise CrvnnError(f"{path} is damaged: its checksum does not fit its content")
    try:
        found = _unpack(json.loads(metadata[_STRUCTURE]), tensors)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CrvnnError(
            f"{path} was not written by crvnn: its structure is unknown ({error!r:.100})"
        ) from None
    if not isinstance(found, dict):
        raise CrvnnError(f"{path} was not written by crvnn: it holds no dictionary")
    return found


def _checksum(tensors: Mapping[str, Tensor], structure: str) -> str:
    value = zlib.crc32(structure.encode())
    for name in sorted(tensors):
        kind = f"{name} {tensors[name].dtype} {list(tensors[name].shape)}"
        value = zlib.crc32(kind.encode(), value)
        value = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, value)
    return f"{value:08x}"


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Plain JSON, with the tensors put aside under names that say where they stood."""
    if isinstance(value, Tensor):
        while path in tensors:  # 1 and "1", or "a.b" and b in a
            path += "'"
        tensors[path] = value.detach().to("cpu", copy=True).contiguous()
        return {"tensor": path}
    if isinstance(value, Mapping):
        return {
            "dict": [
                [_pack(key, "", tensors), _pack(item, f"{path}.{key}".lstrip("."), tensors)]
                for key, item in value.items()
            ]
        }
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_pack(item, f"{path}.{number}", tensors) for number, item in enumerate(value)]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{path}: a checkpoint cannot hold {type(value).__name__}")


def _unpack(packed: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {_unpack(key, tensors): _unpack(item, tensors) for key, item in content}
    if kind not in ("list", "tuple") or not isinstance(content, list):
        raise ValueError(f"unknown kind {kind:.40}")
    items = [_unpack(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items
