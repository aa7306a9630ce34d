"""The effect of every shortcut."""

import pytest

from bench_cli import answer
from crvnn_bench.contenders import Contenders
from crvnn_bench.experiments import Setting, effects, settings
from crvnn_bench.setup import Setup
from crvnn_bench.workloads import random_batch
from crvnn_core import CrvnnError


def test_every_shortcut_is_tried_alone_and_together(contenders):
    names = list(settings(contenders, [0.0, 0.01]))
    assert names == [
        "none",
        *("drop 0", "skip 0", "drop and skip 0"),
        *("drop 0.01", "skip 0.01", "drop and skip 0.01"),
        *("the model's own", "hard"),
    ]


def test_a_shortcut_alone_leaves_the_other_one_out(contenders):
    def sizes(setting):
        contender, found = setting.build(contenders), []
        contender.model.encoder.cell.register_forward_pre_hook(
            lambda cell, args: found.append(args[0].shape[:-1].numel())
        )
        contender.perform(random_batch(40, contender.model, 0))
        return found[:-1]  # the last step makes one node

    for setting in (Setting(drop=0.9), Setting(skip=0.2)):
        assert min(sizes(setting)) < 39, setting
    assert set(sizes(Setting())) == {39}  # START, END and the first token never change


def test_effects_are_measured_against_no_shortcut(catalog):
    found = answer("shortcuts", "--rows", 4, "--tolerance", 0, "--threads", 1)
    effects_ = {effect["setting"]: effect for effect in found["effects"]}
    assert list(effects_) == ["none", "drop 0", "skip 0", "drop and skip 0", "the model's own", "hard"]
    none = effects_["none"]
    assert (none["relative"], none["largest"], none["difference"]) == (1, 0, 0)
    assert effects_["drop and skip 0"]["largest"] < 1e-3
    assert effects_["drop and skip 0"]["accuracy"] == none["accuracy"]
    for effect in effects_.values():
        assert effect["most"] <= effect["largest"]
        assert effect["difference"] == pytest.approx(effect["accuracy"] - none["accuracy"])


def test_a_large_tolerance_is_seen_to_change_vectors(contenders):
    found = effects(contenders, 3, settings(contenders, [0.5]))
    changes = {effect["setting"]: effect["largest"] for effect in found}
    assert changes["none"] == 0
    assert changes["drop and skip 0.5"] > 1e-3


def test_an_encoder_without_shortcuts_is_refused_by_name(attention_run, attention_catalog):
    contenders = Contenders(Setup(weights=str(attention_run)), attention_catalog)
    with pytest.raises(CrvnnError, match="'attention' has no shortcuts to measure: no setting 'shortcuts'"):
        settings(contenders, [0.0])
