"""The time of a training step by slot and by operation."""

import pytest

from bench_cli import SMALL, run
from crvnn_bench.profile import profile_step
from crvnn_bench.workloads import Range, samples_of

PRODUCTS = ("aten::mm", "aten::addmm", "aten::addmm_")


def test_a_profile_tells_forward_from_backward_in_every_slot(contenders):
    contender = contenders.build("crvnn")
    modules = list(contender.model.modules())
    hooks = sum(len(module._forward_hooks) for module in modules)
    (group,) = samples_of(Range(12, 20), 1, 1, seed=0)
    found = profile_step(contender, [contender.model.batch(group)])
    slots = {share["name"]: share for share in found["slots"]}
    assert {"retriever", "scorer", "decision", "cell", "halting", "engine"} <= slots.keys()
    assert slots["retriever"]["forward"] > 0  # with kernels, their gradient is made within the scorer's
    for slot in ("scorer", "cell"):
        assert slots[slot]["forward"] > 0
        assert slots[slot]["backward"] > 0
    assert slots["halting"]["backward"] == 0
    assert sum(share["seconds"] for share in found["slots"]) == pytest.approx(found["seconds"])
    assert sum(len(module._forward_hooks) for module in modules) == hooks


def test_a_profile_counts_the_matrix_products_of_torch(contenders):
    contender = contenders.build("crvnn-torch")
    (group,) = samples_of(Range(12, 20), 1, 1, seed=0)
    found = profile_step(contender, [contender.model.batch(group)])
    cell = next(share for share in found["slots"] if share["name"] == "cell")
    products = sum(share["calls"] for share in found["operations"] if share["name"] in PRODUCTS)
    # Two of the cell and one of the scorer, and one gradient of each; those of weights are made together.
    assert products >= 2 * 3 * cell["calls"]


def test_the_profile_is_shown_as_two_tables():
    shown = run(
        "profile", "--weights", "untrained", "--lengths", 12, "--samples", 1, "--top", 20, *SMALL
    ).stdout
    assert "slot of crvnn" in shown
    assert "operation of crvnn" in shown
    assert "aten::" in shown
