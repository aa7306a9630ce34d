"""``crvnn data``: making, fetching and checking the data of the tasks."""

from __future__ import annotations

import click

from crvnn_tasks.data.check import check_command
from crvnn_tasks.data.get import get_command
from crvnn_tasks.data.make import make


@click.group("data")
def data() -> None:
    """Make, fetch and check the data of the tasks.

    \b
    Examples:
      crvnn data make listops --rows 1000 --out rows.tsv
      crvnn data get sst --dir data/sst
      crvnn data check sst5 --dir data/sst
    """


data.add_command(make)
data.add_command(get_command)
data.add_command(check_command)
