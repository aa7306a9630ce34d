"""The engine on devices: synchronisation, torch.compile, autocast and dtypes."""

import pytest
import torch

import crvnn_core.engine.shortcuts
from crvnn_core.engine.shortcuts import ActiveSequences, StepPlan
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from engines import RETRIEVERS, tokens

pytestmark = pytest.mark.usefixtures("by")


@pytest.mark.parametrize(
    ("retriever", "decision"),
    [(retriever, "modulated") for retriever in RETRIEVERS]
    + [
        ("adhoc", decision)
        for decision in ("sigmoid", "gumbel-sigmoid", "straight-through", "stretched", "sparsemax")
    ],
)
def test_a_step_synchronises_with_the_device_only_to_plan_the_next(catalog, monkeypatch, retriever, decision):
    spec = read_spec(catalog, parts={"retriever": retriever, "decision": decision}, sets=["model.width=4"])
    model = assemble(spec, catalog).model.encoder
    state = model.begin(*tokens(6, 4))
    sequences, plans = ActiveSequences(model), []
    monkeypatch.setattr(
        sequences,
        "_plan_after",
        lambda state, *_: plans.append(1) or StepPlan(state.present, [True], [0], [8], [8]),
    )
    monkeypatch.setattr(crvnn_core.engine.shortcuts, "host_sees", lambda values: False)  # as on a GPU
    for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__", "nonzero", "cpu"):
        monkeypatch.setattr(torch.Tensor, name, _waits)
    model.step(state, sequences.update)
    assert plans == [1]
    assert model.to("meta").step(model.begin(*(t.to("meta") for t in tokens(6, 4))), model.update)[0].is_meta


def _waits(*args, **kwargs):
    raise AssertionError("a step read a value on the host")


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_autocast_keeps_the_nodes_in_float32(catalog, retriever):
    model = assemble(read_spec(catalog, parts={"retriever": retriever}), catalog).model.encoder.eval()
    inputs, mask = torch.randn(2, 40, 64).bfloat16(), torch.ones(2, 40, dtype=torch.bool)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        state = model.begin(inputs, mask)
        _, after = model.step(state, model.update)
        vector = model(inputs, mask).vector
    assert after.nodes.dtype == after.exists.dtype == after.left_c.dtype == torch.float32
    torch.testing.assert_close(vector, model(inputs.float(), mask).vector, atol=0.06, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_model_of_another_dtype_keeps_it(catalog, dtype):
    model = assemble(read_spec(catalog), catalog).model.encoder.eval().to(dtype)
    vector = model(torch.randn(2, 9, 64, dtype=dtype), torch.ones(2, 9, dtype=torch.bool)).vector
    assert vector.dtype == dtype
    assert vector.isfinite().all()
