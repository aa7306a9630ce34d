"""The contract of every slot, shipped: named checks that anyone's component can be put through.

An author's whole test file is one parametrised function over ``CHECKS`` of a slot, and ``crvnn check`` runs the
same. ``crvnn_core.testing.oracles`` holds slow versions written from the definitions, and
``crvnn_core.testing.strategies`` (which needs Hypothesis) generates inputs.
"""

from crvnn_core.testing.common import Check, Outcome, promise, run_checks
from crvnn_core.testing.contracts import CHECKS

__all__ = ["CHECKS", "Check", "Outcome", "promise", "run_checks"]
