"""Operations: the body defines them, and back ends stand in where they serve."""

import copy
import pickle

import pytest
import torch

from crvnn_core.kernels import Library, Operation, without
from crvnn_core.kernels.library import fixed_weights


@Operation
def double(values):
    """Twice the values."""
    return 2 * values


@pytest.fixture
def fresh():
    """An operation of one's own, without back ends."""
    return Operation(double.body)


def test_the_first_back_end_that_serves_runs_else_the_body(fresh):
    assert fresh(3) == 6
    assert fresh.__doc__ == "Twice the values."

    @fresh.attach
    def negative(values):
        return -values if values > 10 else NotImplemented

    fresh.attach(lambda values: "second" if values > 5 else NotImplemented)
    assert [fresh(3), fresh(7), fresh(11)] == [6, "second", -11]
    assert (negative(11), fresh.body(11)) == (-11, 22)


class Operators:
    """Those of a library that needs no compiler."""

    entered = 0

    def double(self, values):
        return values.add(values)

    def enter(self):
        self.entered += 1

    def leave(self):
        self.entered -= 1


@pytest.fixture
def library(monkeypatch):
    """A library whose operators are Python's."""
    from crvnn_core.kernels import library as module

    monkeypatch.setattr(module, "_attached", list(module._attached))
    made, operators = Library("of_a_test", "tests"), Operators()
    monkeypatch.setattr(made, "_load", lambda: operators)
    made.operators = operators
    return made


def test_an_adapter_of_a_library_serves_an_operation(library, fresh):
    seen = []

    @fresh.attach
    @library.backend
    def adapter(ops, values):
        seen.append(ops)
        return ops.double(values)

    assert torch.equal(fresh(torch.ones(2)), torch.full((2,), 2.0))
    assert seen == [library.operators]
    with without():
        fresh(torch.ones(2))
    fresh(torch.ones(2, dtype=torch.float64))
    assert len(seen) == 1


def test_a_library_is_looked_for_once(library, monkeypatch):
    calls = []
    monkeypatch.setattr(library, "_load", lambda: calls.append(1))
    library.load()
    library.load()
    assert calls == [1]
    library.forget()
    library.load()
    assert calls == [1, 1]


def test_every_attached_library_knows_that_weights_are_fixed_and_is_told_the_end(library):
    with fixed_weights():
        assert library.operators.entered == 0
    library.backend(Operators.double)
    with fixed_weights():
        assert library.operators.entered == 1
    assert library.operators.entered == 0
    with pytest.raises(ZeroDivisionError), fixed_weights():
        1 / 0  # noqa: B018
    assert library.operators.entered == 0
    with without(), fixed_weights():
        assert library.operators.entered == 0


def test_back_ends_get_keyword_arguments_by_position():
    @Operation
    def scaled(values, by=2, plus=0):
        return values * by + plus

    seen = []
    scaled.attach(lambda *given: seen.append(given) or NotImplemented)
    assert scaled(3, plus=1) == scaled(plus=1, values=3) == 7
    assert seen == [(3, 2, 1), (3, 2, 1)]
    with pytest.raises(TypeError, match="minus"):
        scaled(3, minus=1)


def test_an_operation_is_pickled_and_copied_by_name():
    assert pickle.loads(pickle.dumps(double)) is double
    assert copy.deepcopy([double])[0] is double


def test_a_library_that_defines_no_scope_is_named_and_torch_does_the_work(monkeypatch, tmp_path):
    made = Library("without_a_scope", "crvnn_core.engine.operations")
    path = tmp_path / "without_a_scope.so"
    path.write_bytes(b"as if compiled")
    monkeypatch.setattr(made, "path", lambda: path)
    monkeypatch.setattr(torch.ops, "load_library", lambda path: None)
    with pytest.warns(UserWarning, match="define_scope"):
        assert made.load() is None
