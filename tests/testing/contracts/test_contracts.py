"""What the contracts of all slots have in common."""

from pathlib import Path

import pytest

from contract_cases import TESTED_ELSEWHERE
from crvnn_core import Component
from crvnn_core.testing import CHECKS, promise, run_checks


@pytest.mark.parametrize("file", sorted(set(TESTED_ELSEWHERE.values())))
def test_components_that_need_files_run_their_contract_in_their_own_tests(file):
    assert "run_checks(" in (Path(__file__).parents[2] / file).read_text()


def test_every_check_has_its_own_docstring():
    for checks in CHECKS.values():
        assert len({promise(check) for check in checks}) == len(checks)
        assert all(promise(check).endswith(".") and check.__doc__ for check in checks)


def test_a_component_that_cannot_be_built_fails_every_check():
    def build():
        raise RuntimeError("out of luck")

    outcomes = list(run_checks(Component("broken", build), CHECKS["halting"]))
    assert not any(outcome.kept for outcome in outcomes)
    assert all("RuntimeError: out of luck" in outcome.reason for outcome in outcomes)


def test_a_component_that_exits_the_program_fails_every_check():
    def leave(width: int) -> None:
        raise SystemExit(0)

    outcomes = list(run_checks(Component("leaver", leave), CHECKS["cell"]))
    assert len(outcomes) == len(CHECKS["cell"])
    assert not any(outcome.kept for outcome in outcomes)
