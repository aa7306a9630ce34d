"""Devices, precision, threads and processes, as a spec asks and launchers (torchrun, SLURM) say: Lightning Fabric."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crvnn_core.delays import telling_of_delay
from crvnn_core.errors import CrvnnError
from crvnn_core.signals import ended_by_signal
from crvnn_core.spec import TrainingSpec

if TYPE_CHECKING:
    from lightning_fabric import Fabric

#: The numbers by which launchers (torchrun, SLURM) number processes.
_NUMBERS = (
    *("WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "MASTER_PORT"),
    *("SLURM_NTASKS", "SLURM_NNODES", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"),
)
#: How many times slower than with one thread an operation must be to be noticed. Idle cores stay well below.
NOTICEABLE = 2.0
_SECONDS = 0.02  # that each number of threads is timed for
_SIZE = 1 << 17  # elements; torch shares work on more than 32,768 among threads
_BF16_PRODUCTS = "bf16-products"
_STARTING = 30.0  # seconds that processes may take to find each other


def launched(spec: TrainingSpec, threads: int = 0) -> Fabric:
    """Fabric, launched as a spec asks: from here on there may be several processes.

    Under ``torchrun`` and SLURM's ``srun`` the number of processes is theirs.

    :param threads: of a run that is resumed, used if the spec leaves the number to torch; so the bits stay the same.
    """
    for name in _NUMBERS:  # at which Fabric would fail, at some of them as soon as it is imported
        _count(name)
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from lightning_fabric.plugins.precision import MixedPrecision
    from lightning_fabric.strategies.ddp import DDPStrategy

    devices, nodes = _layout(spec)
    several = devices * nodes > 1
    # A batch of single tokens never calls the cell: its parameters then have no gradient.
    strategy = DDPStrategy(find_unused_parameters=True, timeout=_timeout()) if several else "auto"
    precision: Any = {"32": "32-true", "64": "64-true", _BF16_PRODUCTS: "32-true"}.get(
        spec.precision, spec.precision
    )
    options: dict[str, Any] = {"precision": precision}
    plugins: list[Any] = []
    if spec.precision == "16-mixed" and torch.cuda.is_available():  # our own scaler, so that it can be saved
        options, plugins = {}, [MixedPrecision("16-mixed", "cuda", torch.amp.GradScaler("cuda"))]
    if several and _count("SLURM_NTASKS") == 1 and not _count("LOCAL_WORLD_SIZE"):
        plugins.append(LightningEnvironment())  # one task of SLURM, which starts the other processes itself
    try:
        if spec.threads or threads:
            torch.set_num_threads(spec.threads or threads)
        torch.set_flush_denormal(True)  # arithmetic on denormals takes a CPU ten times as long
        fabric = Fabric(
            accelerator=spec.accelerator,
            devices=devices,
            num_nodes=nodes,
            strategy=strategy,
            plugins=plugins or None,
            **options,
        )
        starting = f"all {devices * nodes} processes to start (did the launcher start so many?)"
        with contextlib.ExitStack() as stack:
            if several:  # they wait for each other outside Python, where a signal would not end them
                stack.enter_context(telling_of_delay(lambda: starting, _STARTING))
                stack.enter_context(ended_by_signal(1, lambda: end_children(fabric)))
            fabric.launch()
        if not spec.threads and not threads and fabric.device.type == "cpu":
            threads = torch.get_num_threads()
            if remark := remark_on_busy_cores():
                torch.set_num_threads(1)
            if remark and fabric.is_global_zero:
                advice = f"'training.threads = {threads}' uses {threads} all the same."
                print(f"crvnn: {remark}, so one is used. {advice}", file=sys.stderr)
    except (RuntimeError, ValueError, ImportError) as error:  # such as a missing device
        raise CrvnnError(f"[training] cannot be done on this machine: {error}") from error
    return fabric


def _timeout() -> timedelta:
    """How long a process waits for the others before it gives up."""
    text = os.environ.get("CRVNN_TIMEOUT") or "600"
    if not text.isdecimal() or not 0 < int(text) < 1_000_000:
        raise CrvnnError(
            f"CRVNN_TIMEOUT is set to '{text:.40}' in the environment; it must be a number of seconds below a million"
        )
    return timedelta(seconds=int(text))


def _layout(spec: TrainingSpec) -> tuple[int, int]:
    """The number of processes on this machine, and the number of machines."""
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

    if here := _count("LOCAL_WORLD_SIZE"):  # torchrun, which may itself run under SLURM
        return here, max(_count("WORLD_SIZE") // here, 1)
    tasks = _count("SLURM_NTASKS")
    if tasks > 1 and SLURMEnvironment.detect():
        nodes = max(_count("SLURM_NNODES"), 1)
        return _count("SLURM_NTASKS_PER_NODE") or max(tasks // nodes, 1), nodes
    return spec.devices, 1


def _count(name: str) -> int:
    """The number in an environment variable, which a launcher sets; 0 if it is not set."""
    text = os.environ.get(name) or "0"
    if not text.isascii() or not text.isdecimal() or len(text) > 6:
        raise CrvnnError(
            f"{name} is set to '{text:.40}' in the environment; it must be a number, as torchrun and SLURM set it. "
            f"'unset {name}' trains in one process."
        )
    return int(text)


def end_children(fabric: Fabric, seconds: float = 0.0) -> None:
    """Kill the processes that this one has started and that have not ended after so many seconds."""
    deadline = time.monotonic() + seconds
    for child in getattr(fabric.strategy.launcher, "procs", ()):
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(max(0.0, deadline - time.monotonic()))
        child.kill()


@contextlib.contextmanager
def heartbeats(fabric: Fabric, directory: Path | None) -> Iterator[None]:
    """Within this context several processes notice when one of them fails, dies or hangs, and end with a message.

    A process that waits for the lost one is ended from outside its main thread, with exit code 2.

    :param directory: that of the run or runs, which can be resumed then.
    """
    if fabric.world_size == 1:
        yield
        return
    from crvnn_core.training.heartbeats import Heartbeats

    beats = Heartbeats(fabric, directory)
    try:
        yield
        fabric.barrier()  # rank 0, which may hold the store, leaves with the others
    except BaseException as error:
        beats.fail(error)
        raise
    finally:
        beats.stop()


@contextlib.contextmanager
def rounded_products(precision: str) -> Iterator[None]:
    """Within it, matrix products of float32 are as ``bf16-products`` says, if that is the precision of a spec."""
    before = torch.get_float32_matmul_precision()
    if precision == _BF16_PRODUCTS:
        torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def products_note(fabric: Fabric, precision: str) -> list[str]:
    """What to say where ``bf16-products`` makes nothing faster: a list of one sentence, or of none."""
    if precision != _BF16_PRODUCTS or fabric.device.type != "cpu":
        return []
    found = torch.cpu.get_capabilities()
    if all(found.get(name) for name in ("amx_bf16", "avx512_bf16")):
        return []
    return [
        "this processor has no AMX, so with precision 'bf16-products' kernels multiply in 32 bits as ever"
    ]


def remark_on_busy_cores() -> str:
    """How much longer an operation takes with several threads than with one, if that is noticeable; or nothing."""
    threads = torch.get_num_threads()
    if threads == 1:
        return ""
    together = _duration()
    torch.set_num_threads(1)
    try:
        times = together / _duration()
    finally:
        torch.set_num_threads(threads)
    if times < NOTICEABLE:
        return ""
    return (
        f"the cores are busy: with {threads} threads an operation takes {times:.0f} times as long as with one"
    )


def _duration() -> float:
    """Seconds of an operation, on average over a few milliseconds."""
    values = torch.ones(_SIZE)
    torch.add(values, 1.0)  # starts the threads
    began, count = time.monotonic(), 0
    while (passed := time.monotonic() - began) < _SECONDS or not count:
        torch.add(values, 1.0)
        count += 1
    return max(passed, 1e-9) / count


def summed(fabric: Fabric, tensor: Tensor) -> Tensor:
    """A tensor summed over all processes."""
    if fabric.world_size == 1:
        return tensor
    total = fabric.all_reduce(tensor, reduce_op="sum")
    assert isinstance(total, Tensor)
    return total


def read_by_first(fabric: Fabric, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the first process reads from its disk, in every process."""
    if fabric.world_size == 1:
        return read()
    found: dict[str, Any] = fabric.broadcast(read() if fabric.is_global_zero else {})
    return found
