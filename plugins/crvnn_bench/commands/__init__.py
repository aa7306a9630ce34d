"""The command group ``crvnn bench``. Importing it does not import torch."""

from __future__ import annotations

import click

from crvnn_bench.commands.encoders import encoders_command
from crvnn_bench.commands.lengths import lengths_command
from crvnn_bench.commands.memory import memory_command
from crvnn_bench.commands.plot import plot_command
from crvnn_bench.commands.profile import profile_command
from crvnn_bench.commands.shortcuts import shortcuts_command
from crvnn_bench.commands.speed import speed_command


@click.group("bench")
def bench() -> None:
    """Measure encoders: time, memory, and the effect of every shortcut.

    Times are from interleaved runs of all contenders in one process; memory is measured in a fresh process for each.

    \b
    Examples:
      crvnn bench speed --lengths 701-1000 --contender crvnn --contender dense
      crvnn bench encoders --lengths 50-100
      crvnn bench memory --lengths 1000
      crvnn bench lengths --out lengths.json
      crvnn bench plot lengths.json --out lengths.svg
      crvnn bench shortcuts --rows 1000
      crvnn bench profile --lengths 701-1000
    """


for _command in (
    speed_command,
    encoders_command,
    memory_command,
    lengths_command,
    shortcuts_command,
    profile_command,
    plot_command,
):
    bench.add_command(_command)
