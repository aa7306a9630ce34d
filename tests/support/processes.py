"""Trainings in several processes on this machine, for tests: started by torchrun, by SLURM (simulated), by crvnn."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

from small import PLUGIN, start

#: Seconds that a training may take here, where many processes share few cores.
PATIENCE = 900


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def torchrun(processes, *args, cwd, **environment):
    """``torchrun`` of a Python file in so many processes, which have just been started."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes]
    return start(*launcher, *args, cwd=cwd, **environment)


def srun(nodes, tasks, *args, cwd):
    """The processes that SLURM would start on so many nodes, all on this machine, with the variables that it sets."""
    shared = {
        "SLURM_JOB_ID": 4711,
        "SLURM_JOB_NAME": "training",
        "SLURM_NODELIST": "127.0.0.1",
        "SLURM_NNODES": nodes,
        "SLURM_NTASKS": nodes * tasks,
        "SLURM_NTASKS_PER_NODE": tasks,
        "MASTER_PORT": free_port(),
    }
    ranks = [
        {"SLURM_PROCID": rank, "SLURM_NODEID": rank // tasks, "SLURM_LOCALID": rank % tasks}
        for rank in range(nodes * tasks)
    ]
    return [start(sys.executable, PLUGIN, *args, cwd=cwd, **shared, **rank) for rank in ranks]


def ended(*processes):
    """What the processes have printed, once all have ended well."""
    found = [process.communicate(timeout=PATIENCE) for process in processes]
    for process, (_, errors) in zip(processes, found, strict=True):
        assert process.returncode == 0, errors
    return found


def children(process):
    """The ids of the processes that a process has started, in their order."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return list(map(int, listed.split()))


def is_running(pid):
    """Whether there is such a process, and it has not ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until(condition, seconds=PATIENCE):
    """The seconds until a condition held; an error if it never does."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"nothing happened in {seconds} s")
        time.sleep(0.05)
    return time.monotonic() - began


def kill_all(process, pids):
    """End what is left of a test that has failed."""
    for pid in (process.pid, *pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
