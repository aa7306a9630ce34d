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
    Task,
    create_plugin_manager,
    hookimpl,
    read_catalog,
)
from crvnn_core.inference.dry_run import dry_run
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble


def assembly_of(*, sets=(), preset=None, **components):
    """A small variant with my own components, by slot, in the place of the built-in ones."""

    class Mine:
        pass

    for slot, build in components.items():
        setattr(Mine, f"crvnn_{slot}s", hookimpl(lambda self, build=build: [Component("mine", build)]))
    catalog = read_catalog(create_plugin_manager(Mine()))
    small = ["model.width=8", *([] if "task" in components else ["task.max_tokens=20"])]
    parts = dict.fromkeys(components, "mine")
    return assemble(read_spec(catalog, preset=preset, parts=parts, sets=[*small, *sets]), catalog)


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


def test_a_dry_run_says_what_each_slot_costs_and_a_cell_that_is_skipped_costs_less():
    whole, skipping = (
        {row.slot: row.multiply_adds for row in dry_run(assembly_of(sets=[setting]), size=4).rows}
        for setting in ("model.encoder.shortcuts=false", "model.encoder.shortcuts=true")
    )
    products = 2 * 8 * 32 + 32 * 32
    assert whole["task"] is None
    assert products <= whole["cell"] <= 1.05 * products
    assert whole["scorer"] >= 5 * 8 * 8
    assert whole["retriever"] > 0
    assert 0 < skipping["cell"] < whole["cell"]


def out_of_luck(left):
    raise RuntimeError("out of luck")


@pytest.mark.parametrize(
    ("returned", "kind", "message"),
    [
        (lambda left: None, ContractError, r": cell Odd returned a NoneType, not a tensor"),
        (lambda left: left[..., :1], ContractError, r": cell Odd returned the shape"),
        (lambda left: left / 0, ContractError, r" gives NaN or infinity"),
        (out_of_luck, PluginError, r" failed: RuntimeError: out of luck .*inference/test_dry_run\.py:\d+"),
        (  # a line of one's own rather than one of torch
            lambda left: torch.nn.functional.linear(left, torch.ones(3, 3)),
            PluginError,
            r" failed: RuntimeError: .*inference/test_dry_run\.py:\d+",
        ),
    ],
)
def test_a_cell_that_raises_or_returns_nonsense_is_named_with_its_package(returned, kind, message):
    class Odd(Summing):
        def forward(self, left, right):
            return returned(left)

    with pytest.raises(kind, match=rf"cell 'mine' \(Mine\){message}"):
        dry_run(assembly_of(cell=Odd))


def disk_is_gone():
    raise OSError("the disk is gone")


@pytest.mark.parametrize(
    ("give", "kind", "message"),
    [
        (lambda: iter(()), CrvnnError, ": the split 'train' has no examples to try the model on"),
        (disk_is_gone, PluginError, " failed to give examples: OSError: the disk is gone"),
        (
            lambda: iter([Example((("a",),), 5)]),
            CrvnnError,
            ": example 0 of the split 'train' has the label 5",
        ),
    ],
)
def test_a_task_without_examples_that_fit_is_named(give, kind, message):
    class Given(Task):
        vocabulary, classes = ("a",), ("no", "yes")

        def examples(self, split, seed):
            return give()

    with pytest.raises(kind, match=rf"task 'mine' \(Mine\){message}"):
        dry_run(assembly_of(task=Given))


@pytest.mark.parametrize(
    "where", ["embed", "project", "encoder.cell.gates", "encoder.scorer.score", "head.layers.1"]
)
def test_weights_that_are_not_numbers_give_a_clear_error(where):
    assembly = assembly_of()
    with torch.no_grad():
        assembly.model.get_submodule(where).weight[-3:] = math.nan
    with pytest.raises(CrvnnError, match=r"NaN or infinity|a loss of nan|norm nan"):
        dry_run(assembly)


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
