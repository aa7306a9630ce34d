"""The names of ``crvnn_core.spec``."""

from crvnn_core.spec.resolve import read_spec as read_spec
from crvnn_core.spec.schema import ModelSpec as ModelSpec
from crvnn_core.spec.schema import PartSpec as PartSpec
from crvnn_core.spec.schema import RunSpec as RunSpec
from crvnn_core.spec.schema import Stage as Stage
from crvnn_core.spec.schema import TrainingSpec as TrainingSpec
from crvnn_core.spec.write import spec_dict as spec_dict
from crvnn_core.spec.write import spec_text as spec_text
from crvnn_core.spec.write import stage_changes as stage_changes
from crvnn_core.spec.write import stage_summary as stage_summary
from crvnn_core.spec.write import write_spec as write_spec
