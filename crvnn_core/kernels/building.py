"""Compiling a library: one call of the system's C++ compiler, cached under a digest of all it depends on."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

from crvnn_core.errors import CrvnnError
from crvnn_core.files import cache_directory, replacing

#: Headers for every library, included as ``<crvnn/common.h>``.
INCLUDE = Path(__file__).parent / "include"
_FLAGS = (
    *("-std=c++20", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared"),
    # Two libraries may be built from different versions of the headers: neither sees the other's.
    *("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
)
#: What the processor can do, in the words of torch, and what lets a compiler use it.
_CAPABILITIES = {
    "AVX512": (
        "-mprefer-vector-width=512",
        "-mavx512f",
        "-mavx512dq",
        "-mavx512vl",
        "-mavx512bw",
        "-mavx2",
        "-mfma",
    ),
    "AVX2": ("-mavx2", "-mfma"),
}


@cache
def library_path(name: str, sources: Path) -> Path:
    """Where a library for this torch and this processor is, or would be; its name has a digest of all it depends on."""
    made_for = [
        torch.__version__,
        torch.__config__.show(),
        sys.platform,
        platform.machine(),
        torch.backends.cpu.get_cpu_capability(),
    ]
    digest = hashlib.sha256(repr([*made_for, _FLAGS, sorted(_CAPABILITIES.items())]).encode())
    for folder in (INCLUDE / "crvnn", sources):
        for source in sorted([*folder.rglob("*.h"), *folder.rglob("*.cpp")]):
            digest.update(source.read_bytes())
    return cache_directory() / "kernels" / f"{name}-{digest.hexdigest()[:20]}.so"


def compiler() -> str | None:
    """The system's C++ compiler: CXX, or the first of the usual names."""
    if chosen := os.environ.get("CXX"):
        return chosen
    return next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), None)


def build(name: str, sources: Path) -> Path:
    """Compile a library; nothing is replaced unless the result can be loaded."""
    chosen = compiler()
    if chosen is None:
        raise CrvnnError(
            "no C++ compiler was found: install one (g++ or clang++), or name it in CXX. "
            "Nothing needs it: without kernels torch does the same work, more slowly."
        )
    try:
        command = shlex.split(chosen)
    except ValueError as error:
        raise CrvnnError(f"CXX is {chosen!r}, which is no command: {error}") from error
    path = library_path(name, sources)
    with replacing(path) as temporary:
        problems: list[str] = []
        for parallel in ("-fopenmp", "-fopenmp-simd"):  # without OpenMP there is one thread
            problem = _compile([*command, parallel], sources, temporary) or _try_to_load(temporary)
            if not problem:
                break
            problems.append(f"{parallel}: {_gist(problem)}")
        else:
            raise CrvnnError(
                f"the kernels of {name} could not be compiled with {chosen}:\n" + "\n".join(problems)
            )
    return path


def _gist(problem: str) -> str:
    """What a compiler says is wrong, without all that it adds; else its last words."""
    wrong = [line for line in problem.splitlines() if "error" in line.lower()]
    return "\n".join(wrong[:5]) or problem.strip()[-1500:]


def _compile(command: list[str], sources: Path, target: Path) -> str:
    """What the compiler complains about; nothing if all is well."""
    torch_files = Path(torch.__file__).parent
    headers = torch_files / "include"
    capability = _CAPABILITIES.get(torch.backends.cpu.get_cpu_capability(), ())
    linking = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    return _run(
        [
            *command,
            *_FLAGS,
            *capability,
            *("-isystem", str(headers)),
            *("-isystem", str(headers / "torch" / "csrc" / "api" / "include")),
            f"-I{INCLUDE}",
            str(sources / "library.cpp"),
            f"-L{torch_files / 'lib'}",
            *("-ltorch_cpu", "-lc10"),
            *linking,
            *("-o", str(target)),
        ]
    )


def _try_to_load(library: Path) -> str:
    """What goes wrong when another process loads it; nothing if all is well."""
    return _run(
        [sys.executable, "-c", "import sys, torch; torch.ops.load_library(sys.argv[1])", str(library)]
    )


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    except OSError as error:
        return f"{command[0]}: {error}"
    return "" if done.returncode == 0 else done.stderr or f"{command[0]} ended with {done.returncode}"
