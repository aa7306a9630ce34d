"""Slots: one record each, and everything that the record promises is there."""

import inspect

import attrs
import pytest
from click.testing import CliRunner

import crvnn_core
from crvnn_core.cli import main
from crvnn_core.host import hooks
from crvnn_core.host.slots import ENCODER_PARTS, SLOT_BY_NAME, SLOT_BY_PATH
from crvnn_core.spec.schema import ModelSpec, PartSpec, RunSpec, TrainingSpec
from crvnn_core.testing import CHECKS
from crvnn_core.testing.parts import everything, plain_parts

ALL = pytest.mark.parametrize("slot", SLOT_BY_NAME.values(), ids=lambda slot: slot.name)


@ALL
def test_every_slot_has_a_hook_that_names_its_interface(slot):
    hook = getattr(hooks, slot.hook)
    assert hook.crvnn_spec
    module, _, name = slot.interface.partition(":")
    shown = f"crvnn_core.{name}" if module.startswith("crvnn_core") else f"{module}.{name}"
    assert f"``{shown}``" in hook.__doc__


@ALL
def test_the_interface_of_every_slot_is_a_class_that_programs_can_import(slot):
    interface = slot.load_interface()
    assert inspect.isclass(interface)
    if interface.__module__.startswith("crvnn_core"):
        assert getattr(crvnn_core, interface.__name__) is interface


@ALL
def test_every_slot_has_a_contract(slot):
    assert CHECKS[slot.name]
    assert all(check.__name__.startswith(f"check_{slot.name}_") for check in CHECKS[slot.name])


def test_every_slot_is_a_field_of_the_spec_and_every_field_that_names_components_a_slot():
    tables = {(): RunSpec, ("model",): ModelSpec, ("training",): TrainingSpec}
    fields = {
        (*at, field.name): field.type
        for at, kind in tables.items()
        for field in attrs.fields(kind)
        if field.type in (PartSpec, tuple[PartSpec, ...])
    }
    assert fields == {
        path: tuple[PartSpec, ...] if slot.many else PartSpec for path, slot in SLOT_BY_PATH.items()
    }


def test_the_command_line_has_an_option_for_every_slot_of_the_model_and_the_task():
    text = " ".join(CliRunner().invoke(main, ["assemble", "--help"], terminal_width=300).output.split())
    for slot in SLOT_BY_NAME.values():
        assert (f"--{slot.name} NAME {slot.help}" in text) is not slot.for_training


def test_what_is_filled_in_can_be_filled_in_by_the_contract_too():
    filled_in = {name for slot in SLOT_BY_NAME.values() for name in slot.filled_in}
    assert set(everything(8)) == {*filled_in, SLOT_BY_NAME["encoder"].inner}
    assert tuple(plain_parts(8)) == ENCODER_PARTS
    assert set(SLOT_BY_NAME["encoder"].filled_in) == {"width", *ENCODER_PARTS}
