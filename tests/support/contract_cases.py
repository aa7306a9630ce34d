"""The checks of a slot's contract as cases of a test: for built-in components, and for faulty ones."""

import pytest

from contract_faults import SHARED
from crvnn_core import Component, create_plugin_manager, read_catalog
from crvnn_core.spec.description import with_parameters
from crvnn_core.testing import CHECKS, generic, run_checks

CATALOG = read_catalog(create_plugin_manager())

#: Components that need files or a network, and the test files that run their contract.
TESTED_ELSEWHERE = {
    ("embedding", "glove"): "parts/test_embeddings.py",
    ("embedding", "torchtext"): "torchtext/test_vectors.py",
    ("task", "from-file"): "tasks/test_from_file.py",
    ("task", "in-memory"): "tasks/test_in_memory.py",
    ("task", "mnli"): "tasks/test_nli.py",
    ("task", "snli"): "tasks/test_nli.py",
    ("task", "sst2"): "tasks/test_sst.py",
    ("task", "sst5"): "tasks/test_sst.py",
    ("task", "torchtext"): "torchtext/test_task.py",
}


def built_in(slot, variants=(), *, excluded=()):
    """Parametrise a test over a slot's checks and its built-in components, with and without native kernels.

    The test takes ``name``, ``sets``, ``check`` and ``by``; ``component(slot, name, sets)`` is what to check.

    :param variants: names of components and the settings to check them with, besides the defaults.
    :param excluded: names, settings and the check that cannot hold for them.
    """
    names = [
        name
        for name in CATALOG.components[slot]
        if CATALOG.find(slot, name).source.package == "crvnn"  # and not of a package installed beside it
        and (slot, name) not in TESTED_ELSEWHERE
    ]
    cases = [
        pytest.param(name, sets, check, by, id="-".join([name, *sets, check.__name__, by]))
        for name, sets in [*((name, ()) for name in names), *variants]
        for check in CHECKS[slot]
        if (name, *sets, check.__name__) not in excluded
        for by in (("kernels", "torch") if _has_kernels(slot, name, sets) else ("torch",))
    ]
    return pytest.mark.parametrize(("name", "sets", "check", "by"), cases, indirect=["by"])


def _has_kernels(slot, name, sets):
    """Whether a component has operations with native kernels, with and without which its contract must hold."""
    if slot == "decision":
        return name != "sigmoid" and "modulation=none" not in sets
    auto = not any(setting.startswith("accumulate=") for setting in sets)
    return (slot, name) in {("scorer", "window"), ("cell", "gated"), ("encoder", "crvnn")} or (
        name == "adhoc" and auto
    )


def component(slot, name, sets=()):
    """An installed component with some of its parameters set."""
    return with_parameters(CATALOG.find(slot, name), sets)


def contract_tests(slot, plain, faults, variants=(), *, excluded=()):
    """The tests of a slot's contract: built-in components satisfy it, so does a plain one; and a faulty one fails each.

    :param plain: builds a component that satisfies the contract. With the checks that several slots share, their faults
        are tried in it.
    :param faults: a check without its prefix ``check_`` and the slot, the ``build`` of a component that fails it, and a
        part of the reason that is given.
    :param variants: names of built-in components and the settings to check them with, besides the defaults.
    :param excluded: names, settings and the check that cannot hold for them.
    """
    checks = {check.__name__.removeprefix(f"check_{slot}_"): check for check in CHECKS[slot]}
    shared = {name for name, check in checks.items() if check.__module__ == generic.__name__}
    faults = [*faults, *((name, fault(plain), reason) for name, fault, reason in SHARED if name in shared)]

    @built_in(slot, variants, excluded=excluded)
    def test_built_in_components_satisfy_the_contract(name, sets, check, by):
        check(component(slot, name, sets))

    def test_a_plain_component_satisfies_the_contract():
        assert failures(slot, plain) == []

    @pytest.mark.parametrize(("check", "build", "reason"), faults, ids=[check for check, _, _ in faults])
    def test_a_check_that_fails_says_why(check, build, reason):
        (outcome,) = run_checks(Component("broken", build), [checks[check]])
        assert not outcome.kept
        assert outcome.reason
        assert reason in outcome.reason

    def test_every_check_fails_for_a_faulty_component():
        assert {check for check, _, _ in faults} == set(checks)

    return (
        test_built_in_components_satisfy_the_contract,
        test_a_plain_component_satisfies_the_contract,
        test_a_check_that_fails_says_why,
        test_every_check_fails_for_a_faulty_component,
    )


def failures(slot, build):
    """Why a component fails checks of its slot's contract: nothing if it satisfies the contract."""
    return [
        outcome.reason for outcome in run_checks(Component("plain", build), CHECKS[slot]) if not outcome.kept
    ]
