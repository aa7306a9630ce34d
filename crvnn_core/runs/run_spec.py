"""The spec of a run, as it is used after training."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from crvnn_core.errors import SpecError
from crvnn_core.host.catalog import Catalog
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.spec import RunSpec
from crvnn_core.spec.layers import override, read_toml
from crvnn_core.spec.resolve import resolve


def read_run_spec(directory: RunDirectory, catalog: Catalog, sets: Sequence[str] = ()) -> RunSpec:
    """The spec of a run, in its last stage; how it was trained is left out, since what trained it need not be here."""
    directory.check_spec()
    layers = []
    for data, origins, origin in read_toml(directory.spec):
        kept = copy.deepcopy(data)
        kept.pop("training", None)
        stages = kept.pop("stages", [])
        layers.append((kept, origins, origin))
        for stage in stages[-1:]:
            layers.append(({key: stage[key] for key in ("task", "model") if key in stage}, {}, origin))
    for text in sets:
        data, origin = override(text)
        if list(data) != ["task"]:
            raise SpecError(
                [origin.problem((), "only the task's settings can change, as task.directory=data")]
            )
        layers.append((data, {}, origin))
    return resolve(catalog, layers)
