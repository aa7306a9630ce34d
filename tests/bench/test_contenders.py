"""Names of contenders, and the models that they stand for."""

import pytest
import torch

from crvnn_bench.contenders import Contenders, read_name
from crvnn_bench.setup import VARIANTS, Setup, variant_names
from crvnn_bench.workloads import Range, random_batch, samples_of
from crvnn_core import CrvnnError
from crvnn_core.kernels import allowed


def test_every_contender_can_be_built_and_does_a_training_step(catalog, contenders):
    for name in (*variant_names(), *catalog.components["encoder"]):
        contender = contenders.build(name, "forward" if name == "crvnn-hard" else "train")
        assert contender.perform(random_batch(9, contender.model, 0)).shape == (1,), name


def test_variants_share_weights_and_differ_in_what_their_name_says(contenders):
    base = contenders.base.model.encoder.state_dict()
    built = {variant: contenders.build(f"crvnn-{variant}") for variant in VARIANTS}
    built[""] = contenders.build("crvnn")

    def having(what):
        return {variant for variant, contender in built.items() if what(contender)}

    for variant, contender in built.items():
        own = contender.model.encoder.state_dict()
        assert all(torch.equal(base[key], value) for key, value in own.items()), variant
    assert having(lambda contender: contender.model.encoder.checkpoint) == {"checkpointed"}
    assert having(lambda contender: not contender.model.encoder.shortcuts) == {"plain", "dense"}
    assert having(lambda contender: not contender.kernels) == {"torch", "dense"}
    assert having(lambda contender: contender.hard) == {"hard"}
    retrievers = having(lambda c: type(c.model.encoder.retriever).__name__ == "AdhocDense")
    assert retrievers == {"dense", "dense-retriever"}


def test_training_one_contender_leaves_the_others_as_they_are(contenders):
    one, other = contenders.build("crvnn"), contenders.build("crvnn-checkpointed").model
    one.perform(random_batch(9, one.model, 0))
    with torch.no_grad():
        for parameter in one.model.parameters():
            parameter.zero_()
    for parameter in (other.embed.weight, other.encoder.cell.expand.weight, other.head.layers[-1].weight):
        assert parameter.grad is None
        assert parameter.any()


def test_the_hard_variant_composes_along_one_tree(contenders):
    soft, hard = (contenders.build(name, "forward") for name in ("crvnn", "crvnn-hard"))
    batch = random_batch(12, soft.model, 0)
    with torch.no_grad():
        expected = soft.model(batch, hard=True).encodings[0].vector
    assert torch.equal(hard.output(batch).encodings[0].vector, expected)
    assert not torch.equal(soft.output(batch).encodings[0].vector, expected)


def test_the_variant_by_self_training_has_the_loss_of_that_objective(contenders):
    contender = contenders.build("crvnn-self-training")
    encoder, sampled = contender.model.encoder, []
    sample = encoder.sample

    def counting(*given, **options):
        found = sample(*given, **options)
        sampled.append(len(found.levels))
        return found

    encoder.sample = counting
    steps = contender.perform(random_batch(12, contender.model, 0))
    assert sampled == [4]  # trees for one sequence
    assert 1 <= steps.item() <= 11
    assert encoder.scorer.score.weight.grad.any()  # decisions learn too


def test_an_encoder_that_takes_no_trees_cannot_be_trained_by_self_training(contenders):
    with pytest.raises(CrvnnError, match="The objective 'labels' trains every encoder"):
        contenders.build("lstm-self-training")


@pytest.mark.parametrize(
    ("name", "work", "message"),
    [
        ("crvnn-self-training", "forward", "crvnn-self-training differs in training only"),
        ("crvnn-hard", "train", "crvnn-hard is inference only"),
        ("densse", "train", r"'densse'\. Did you mean 'dense'"),
    ],
)
def test_a_contender_that_cannot_do_the_work_is_refused(contenders, name, work, message):
    with pytest.raises(CrvnnError, match=message):
        contenders.choose([name], (), work)


def test_a_contender_is_measured_once_however_often_it_is_named(contenders):
    assert contenders.choose(["crvnn-hard", "dense", "dense"], (), "forward") == ["crvnn-hard", "dense"]


def test_without_kernels_is_only_while_the_model_runs(contenders):
    contender = contenders.build("crvnn-torch", "forward")
    seen = []
    contender.model.encoder.cell.register_forward_hook(lambda *args: seen.append(allowed()))
    before = allowed()
    contender.perform(random_batch(9, contender.model, 0))
    assert seen
    assert not any(seen)
    assert allowed() == before


def test_the_dense_formulation_gives_the_same_vectors(contenders):
    built = [
        contenders.build(name, "forward") for name in ("crvnn", "dense", "crvnn-plain", "dense-retriever")
    ]
    (group,) = samples_of(Range(20, 60), 3, 3, seed=0)
    first, *others = (each.output(each.model.batch(group)).encodings[0].vector for each in built)
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["crvnn", "dense"])
def test_without_halting_everyone_takes_as_many_steps_as_asked_for(catalog, name):
    contender = Contenders(Setup(width=8, max_steps=5), catalog).build(name, "forward")
    assert contender.perform(random_batch(40, contender.model, 0)).tolist() == [5]


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
    ],
)
def test_a_name_is_an_encoder_and_perhaps_a_variant(text, name):
    assert read_name(text, ["crvnn", "my-hard"]) == name


@pytest.mark.parametrize("text", ["hard", "lstm-hard"])
def test_a_variant_of_no_encoder_is_unknown(text):
    with pytest.raises(CrvnnError, match=f"no contender is called '{text}'"):
        read_name(text, ["crvnn", "my-hard"])


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
    assert contenders.choose((), ["crvnn", "dense"], "train") == ["attention"]
    score = contenders.base.model.encoder.score.weight
    for name in ("attention", "attention-hard", "attention-torch"):
        assert torch.equal(contenders.build(name).model.encoder.score.weight, score)
        assert contenders.remark(name) == ""
    assert contenders.build("crvnn").model.encoder.width == 8
    assert contenders.remark("crvnn") == "untrained"


def test_the_contenders_of_untrained_weights_are_all_untrained(contenders):
    assert contenders.choose((), ["crvnn", "dense"], "train") == ["crvnn", "dense"]
    assert {contenders.remark(name) for name in ("crvnn", "dense", "lstm")} == {""}
