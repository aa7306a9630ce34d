"""Names of contenders, and the models that they stand for."""

import pytest
import torch

from crvnn_bench.contenders import Contenders, check_contenders, known_contenders, read_name
from crvnn_bench.setup import VARIANTS, Setup
from crvnn_bench.timing import perform, ready
from crvnn_bench.workloads import Range, random_batch, samples_of
from crvnn_core import CrvnnError
from crvnn_core.kernels import allowed
from crvnn_core.model.batch import collate


def test_every_contender_can_be_built_and_does_a_training_step(catalog, contenders):
    for name in known_contenders(catalog):
        work = "forward" if name == "crvnn-hard" else "train"
        model = ready(work, contenders.build(name))
        assert perform(work, model, random_batch(9, model, 0)).shape == (1,), name


def test_variants_share_weights_and_differ_in_what_their_name_says(contenders):
    base = contenders.base.model.encoder.state_dict()
    encoders = {"": contenders.build("crvnn").encoder}
    encoders |= {variant: contenders.build(f"crvnn-{variant}").encoder for variant in VARIANTS}
    for variant, encoder in encoders.items():
        assert all(torch.equal(base[key], value) for key, value in encoder.state_dict().items()), variant
    assert [name for name, encoder in encoders.items() if encoder.checkpoint] == ["checkpointed"]
    assert [name for name, encoder in encoders.items() if not encoder.shortcuts] == ["plain", "dense"]
    assert [name for name, encoder in encoders.items() if "forward" in vars(encoder)] == [
        "torch",
        "hard",
        "dense",
    ]
    dense = [name for name, encoder in encoders.items() if type(encoder.retriever).__name__ == "AdhocDense"]
    assert dense == ["dense", "dense-retriever"]


def test_training_one_contender_leaves_the_others_as_they_are(contenders):
    one, other = contenders.build("crvnn"), contenders.build("crvnn-checkpointed")
    perform("train", one.train(), random_batch(9, one, 0))
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.zero_()
    for parameter in (other.embed.weight, other.encoder.cell.expand.weight, other.head.layers[-1].weight):
        assert parameter.grad is None
        assert parameter.any()


def test_the_hard_variant_composes_along_one_tree(contenders):
    soft, hard = (contenders.build(name).eval() for name in ("crvnn", "crvnn-hard"))
    batch = random_batch(12, soft, 0)
    with torch.no_grad():
        expected = soft.encoder(
            soft.project(soft.embed(batch.sequences[0].ids)), batch.sequences[0].mask, hard=True
        )
        assert torch.equal(hard(batch).encodings[0].vector, expected.vector)
        assert not torch.equal(soft(batch).encodings[0].vector, expected.vector)


def test_the_variant_by_self_training_has_the_loss_of_that_objective(contenders):
    model, plain = (contenders.build(name).train() for name in ("crvnn-self-training", "crvnn"))
    batch = random_batch(12, model, 0)
    sampled = []
    sample = model.encoder.sample

    def counting(*given, **options):
        found = sample(*given, **options)
        sampled.append(len(found.levels))
        return found

    model.encoder.sample = counting
    steps = perform("train", model, batch)
    assert sampled == [4]  # trees for one sequence
    assert 1 <= steps.item() <= 11
    assert model.encoder.scorer.score.weight.grad.any()  # decisions learn too
    model.eval(), plain.eval()
    assert torch.equal(model(batch).logits, plain(batch).logits)


def test_an_encoder_that_takes_no_trees_cannot_be_trained_by_self_training(contenders):
    with pytest.raises(CrvnnError, match="The objective 'labels' trains every encoder"):
        contenders.build("lstm-self-training")


def test_a_variant_that_differs_in_training_alone_is_not_measured_otherwise(catalog):
    with pytest.raises(CrvnnError, match="crvnn-self-training differs in training only"):
        check_contenders(["crvnn-self-training"], catalog, training=False)


def test_without_kernels_is_only_while_the_encoder_runs(contenders):
    model = contenders.build("crvnn-torch").eval()
    seen = []
    model.encoder.cell.register_forward_hook(lambda *args: seen.append(allowed()))
    before = allowed()
    perform("forward", model, random_batch(9, model, 0))
    assert seen
    assert not any(seen)
    assert allowed() == before


def test_the_dense_formulation_gives_the_same_vectors(contenders):
    models = [contenders.build(name).eval() for name in ("crvnn", "dense", "crvnn-plain", "dense-retriever")]
    (group,) = samples_of(Range(20, 60), 3, 3, seed=0)
    with torch.no_grad():
        vectors = [model(collate(group, model.vocabulary)).encodings[0].vector for model in models]
    for other in vectors[1:]:
        torch.testing.assert_close(other, vectors[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["crvnn", "dense"])
def test_without_halting_everyone_takes_as_many_steps_as_asked_for(catalog, name):
    model = Contenders(Setup(width=8, max_steps=5), catalog).build(name)
    assert perform("forward", model.eval(), random_batch(40, model, 0)).tolist() == [5]


def test_a_contender_that_nobody_knows_is_refused_with_the_nearest(catalog):
    with pytest.raises(CrvnnError, match=r"'densse'\. Did you mean 'dense'"):
        check_contenders(["densse"], catalog, training=True)


def test_hard_inference_is_not_trained(catalog):
    with pytest.raises(CrvnnError, match="crvnn-hard is inference only"):
        check_contenders(["crvnn-hard"], catalog, training=True)
    assert check_contenders(["crvnn-hard", "dense", "dense"], catalog, False) == ["crvnn-hard", "dense"]


def test_a_model_for_another_task_is_refused(letters_run, small_catalog):
    with pytest.raises(CrvnnError, match="this model is for 'letters'; bench measures on ListOps"):
        Contenders(Setup(weights=str(letters_run)), small_catalog).build("crvnn")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("crvnn", ("crvnn", "")),
        ("crvnn-hard", ("crvnn", "hard")),
        ("crvnn-dense-retriever", ("crvnn", "dense-retriever")),
        ("dense", ("", "dense")),
        ("my-hard", ("my-hard", "")),
        ("my-hard-hard", ("my-hard", "hard")),
        ("hard", None),
        ("lstm-hard", None),
    ],
)
def test_a_name_is_an_encoder_and_perhaps_a_variant(text, name):
    assert read_name(text, ["crvnn", "my-hard"]) == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lstm-hard", "the encoder 'lstm' declares no hard inference"),
        ("lstm-checkpointed", "lstm-checkpointed: the encoder 'lstm' has no such variant"),
        ("lstm-dense", "lstm-dense: the encoder 'lstm' has no such variant"),
    ],
)
def test_a_variant_that_an_encoder_does_not_have_is_refused(contenders, name, message):
    with pytest.raises(CrvnnError, match=message):
        contenders.build(name)


def test_the_encoder_of_a_run_is_measured_with_its_weights_and_others_untrained(
    attention_run, attention_catalog
):
    contenders = Contenders(Setup(weights=str(attention_run)), attention_catalog)
    assert contenders.encoder == "attention"
    assert contenders.default(["crvnn", "dense"]) == ["attention"]
    score = contenders.base.model.encoder.score.weight
    for name in ("attention", "attention-hard", "attention-torch"):
        assert torch.equal(contenders.build(name).encoder.score.weight, score)
        assert contenders.remark(name) == ""
    assert contenders.build("crvnn").encoder.width == 8
    assert contenders.remark("crvnn") == "untrained"


def test_the_contenders_of_untrained_weights_are_all_untrained(contenders):
    assert contenders.default(["crvnn", "dense"]) == ["crvnn", "dense"]
    assert {contenders.remark(name) for name in ("crvnn", "dense", "lstm")} == {""}
