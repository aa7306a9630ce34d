"""The contract of every slot, shipped: named checks that anyone's component can be put through.

An author's whole test file is one parametrised function over a list of checks, and ``crvnn check`` runs the
same list. ``crvnn_core.testing.oracles`` holds slow versions written from the definitions, and
``crvnn_core.testing.strategies`` (which needs Hypothesis) generates inputs.
"""

from crvnn_core.host.slots import SLOT_BY_NAME
from crvnn_core.testing.common import Check, Outcome, promise, run_checks
from crvnn_core.testing.contracts.cell import CELL_CHECKS
from crvnn_core.testing.contracts.decision import DECISION_CHECKS
from crvnn_core.testing.contracts.embedding import EMBEDDING_CHECKS
from crvnn_core.testing.contracts.encoder import ENCODER_CHECKS
from crvnn_core.testing.contracts.halting import HALTING_CHECKS
from crvnn_core.testing.contracts.objective import OBJECTIVE_CHECKS
from crvnn_core.testing.contracts.observer import OBSERVER_CHECKS
from crvnn_core.testing.contracts.optimizer import OPTIMIZER_CHECKS
from crvnn_core.testing.contracts.retriever import RETRIEVER_CHECKS
from crvnn_core.testing.contracts.scorer import SCORER_CHECKS
from crvnn_core.testing.contracts.task import TASK_CHECKS

#: The checks of each slot.
CHECKS: dict[str, tuple[Check, ...]] = {name: slot.load_checks() for name, slot in SLOT_BY_NAME.items()}

__all__ = [
    "CELL_CHECKS",
    "CHECKS",
    "DECISION_CHECKS",
    "EMBEDDING_CHECKS",
    "ENCODER_CHECKS",
    "HALTING_CHECKS",
    "OBJECTIVE_CHECKS",
    "OBSERVER_CHECKS",
    "OPTIMIZER_CHECKS",
    "RETRIEVER_CHECKS",
    "SCORER_CHECKS",
    "TASK_CHECKS",
    "Check",
    "Outcome",
    "promise",
    "run_checks",
]
