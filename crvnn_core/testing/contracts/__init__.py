"""The contract of each slot, a module a slot: its functions ``check_...``, a promise each.

A module with ``MODULES`` has the checks of ``crvnn_core.testing.generic`` too, unless it has one of that name itself.
"""

from importlib import import_module

from crvnn_core.host.slots import SLOTS
from crvnn_core.testing.common import Check


def _checks(slot: str) -> tuple[Check, ...]:
    found = vars(import_module(f"{__name__}.{slot}"))
    own = {name: check for name, check in found.items() if name.startswith("check_")}
    shared = found["MODULES"].checks() if "MODULES" in found else {}
    return tuple((own | {name: check for name, check in shared.items() if name not in own}).values())


#: The checks of each slot.
CHECKS: dict[str, tuple[Check, ...]] = {slot: _checks(slot) for slot in SLOTS}
