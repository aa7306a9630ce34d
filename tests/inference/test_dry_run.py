"""The dry run: what a variant is made of, and what it does with a batch."""

import math

import pytest
import torch
from torch import nn

from crvnn_core import (
    Cell,
    Component,
    ContractError,
    CrvnnError,
    Encoder,
    Encoding,
    Example,
    PluginError,
    Scorer,
    Task,
    create_plugin_manager,
    hookimpl,
    read_catalog,
)
from crvnn_core.inference.dry_run import dry_run
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble

SMALL = ["model.width=8", "task.max_tokens=20"]


def assembly_of(*, sets=(), preset=None, **components):
    """A small variant with my own components, by slot, in the place of the built-in ones."""

    class Mine:
        @hookimpl
        def crvnn_cells(self):
            return [Component("mine", components["cell"])] if "cell" in components else []

        @hookimpl
        def crvnn_scorers(self):
            return [Component("mine", components["scorer"])] if "scorer" in components else []

        @hookimpl
        def crvnn_encoders(self):
            return [Component("mine", components["encoder"])] if "encoder" in components else []

        @hookimpl
        def crvnn_tasks(self):
            return [Component("mine", components["task"])] if "task" in components else []

    catalog = read_catalog(create_plugin_manager(Mine()))
    own_task = "task" in components
    sets = [text for text in [*SMALL, *sets] if not (own_task and text.startswith("task"))]
    return assemble(
        read_spec(catalog, preset=preset, parts=dict.fromkeys(components, "mine"), sets=sets), catalog
    )


class Summing(Cell):
    def leaf(self, inputs):
        return inputs

    def forward(self, left, right):
        return left + right


@pytest.mark.parametrize("preset", ["paper", "reference", "simplified-2023"])
def test_a_dry_run_accounts_for_every_parameter(preset):
    assembly = assembly_of(preset=preset)
    result = dry_run(assembly, size=4)
    by_slot = {row.slot: row.parameters for row in result.rows}
    outside = sum(p.numel() for m in (assembly.model.embed, assembly.model.project) for p in m.parameters())
    assert by_slot["embedding"] == outside
    assert sum(by_slot.values()) == result.parameters
    assert by_slot["encoder"] == 2 * 8  # START and END
    assert by_slot["retriever"] == by_slot["decision"] == by_slot["halting"] == 0


def test_a_dry_run_says_what_was_run():
    result = dry_run(assembly_of(), size=4)
    assert result.sequences == 4
    assert 2 <= result.longest <= 20
    assert 1 <= result.mean_steps <= result.most_steps < result.longest
    assert math.isfinite(result.loss)
    assert result.gradient_norm > 0
    assert result.seconds > 0
    assert [row.slot for row in result.rows[:2]] == ["task", "embedding"]
    assert all(row.source.startswith("crvnn") for row in result.rows)


def test_a_dry_run_says_what_each_slot_costs():
    whole = assembly_of(sets=["model.encoder.shortcuts=false"])
    costs = {row.slot: row.multiply_adds for row in dry_run(whole, size=4).rows}
    products = 2 * 8 * 32 + 32 * 32
    assert costs["task"] is None
    assert products <= costs["cell"] <= 1.05 * products
    assert costs["scorer"] >= 5 * 8 * 8
    assert costs["retriever"] > 0


def test_a_cell_that_is_skipped_at_most_positions_costs_less():
    whole, skipping = (assembly_of(sets=[f"model.encoder.shortcuts={on}"]) for on in ("false", "true"))
    costs = [
        {row.slot: row.multiply_adds for row in dry_run(each, size=4).rows} for each in (whole, skipping)
    ]
    assert 0 < costs[1]["cell"] < costs[0]["cell"]


def test_scores_of_the_wrong_shape_are_named():
    class Unsqueezed(Scorer):
        def forward(self, vectors, near, left_c):
            return vectors[..., :1]

    with pytest.raises(ContractError, match="scorer Unsqueezed returned the shape"):
        dry_run(assembly_of(scorer=Unsqueezed))


def test_a_part_that_raises_is_reported_with_its_packages_and_line():
    class Raising(Summing):
        def forward(self, left, right):
            raise RuntimeError("out of luck")

    with pytest.raises(PluginError) as caught:
        dry_run(assembly_of(cell=Raising))
    assert "cell 'mine' (Mine) failed: RuntimeError: out of luck" in str(caught.value)
    assert "inference/test_dry_run.py:" in str(caught.value)


@pytest.mark.parametrize(
    "where", ["embed", "project", "encoder.cell.gates", "encoder.scorer.score", "head.layers.1"]
)
def test_weights_that_are_not_numbers_give_a_clear_error(where):
    assembly = assembly_of()
    with torch.no_grad():
        assembly.model.get_submodule(where).weight[-3:] = math.nan
    with pytest.raises(CrvnnError, match=r"NaN or infinity|a loss of nan|norm nan"):
        dry_run(assembly)


def test_a_task_without_examples_is_named():
    class Empty(Task):
        vocabulary, classes = ("a",), ("no", "yes")

        def examples(self, split, seed):
            return iter(())

    with pytest.raises(
        CrvnnError, match=r"task 'mine' \(Mine\): the split 'train' has no examples to try the model on"
    ):
        dry_run(assembly_of(task=Empty))


def test_an_encoder_may_keep_its_cell_under_another_name():
    class Folding(Encoder):
        def __init__(self, width: int, cell: Cell):
            super().__init__(width)
            self.inner = nn.ModuleList([cell])

        def forward(self, inputs, mask, *, trace=False):
            state = self.inner[0].leaf(inputs[:, 0])
            for i in range(1, inputs.shape[1]):
                state = self.inner[0](state, self.inner[0].leaf(inputs[:, i]))
            return Encoding(state, state.new_zeros(len(state)), mask.sum(1))

    assembly = assembly_of(encoder=Folding)
    rows = {row.slot: row for row in dry_run(assembly).rows}
    assert rows["cell"].parameters == 0
    assert rows["encoder"].parameters == sum(p.numel() for p in assembly.model.encoder.parameters())
    assert rows["cell"].multiply_adds is None


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda left: None, r"cell 'mine' \(Mine\): cell Odd returned a NoneType, not a tensor"),
        (lambda left: left[..., :1], r"cell 'mine' \(Mine\): cell Odd returned the shape"),
        (lambda left: left / 0, r"cell 'mine' \(Mine\) gives NaN or infinity"),
    ],
)
def test_a_cell_that_returns_nonsense_is_named_with_its_package(returned, message):
    class Odd(Summing):
        def forward(self, left, right):
            return returned(left)

    with pytest.raises(ContractError, match=message):
        dry_run(assembly_of(cell=Odd))


def test_a_line_of_ones_own_is_shown_rather_than_one_of_torch():
    class Mismatched(Summing):
        def forward(self, left, right):
            return torch.nn.functional.linear(left, torch.ones(3, 3))

    with pytest.raises(
        PluginError, match=r"cell 'mine' \(Mine\) failed: RuntimeError: .*test_dry_run\.py:\d+"
    ):
        dry_run(assembly_of(cell=Mismatched))


def test_a_task_that_breaks_is_named():
    class Broken(Task):
        vocabulary, classes = ("a",), ("no", "yes")

        def examples(self, split, seed):
            raise OSError("the disk is gone")

    class Wrong(Broken):
        def examples(self, split, seed):
            return iter([Example((("a",),), 5)])

    with pytest.raises(
        PluginError, match=r"task 'mine' \(Mine\) failed to give examples: OSError: the disk is gone"
    ):
        dry_run(assembly_of(task=Broken))
    with pytest.raises(
        CrvnnError, match=r"task 'mine' \(Mine\): example 0 of the split 'train' has the label 5"
    ):
        dry_run(assembly_of(task=Wrong))
