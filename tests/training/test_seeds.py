"""Training from several seeds and resuming, from Python."""

import json
import shutil

import pytest

from crvnn_core import CrvnnError, Outcome, Result, Score, resume_training, train_seeds
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.spec import read_spec, write_spec
from crvnn_core.training.seeds import RunOutcomes, new_directory, spread
from small import SETTINGS, catalog_with

SETS = (*SETTINGS, "training.steps=2", "training.evaluate_every=2")


@pytest.fixture(scope="module")
def catalog():
    return catalog_with()


def outcome(accuracy, groups, finished=True):
    buckets = {name: Score(1, value, 0.5, 2.0) for name, value in groups.items()}
    return Outcome(2, 2, {"dev": Result(Score(4, accuracy, 0.5, 2.0), buckets)}, finished=finished)


def test_seeds_are_trained_into_directories_of_their_own_and_resumed_for_longer(catalog, tmp_path):
    started = []
    spec = read_spec(catalog, sets=[*SETS, "seed=4"])
    found = train_seeds(
        spec,
        tmp_path / "a",
        seeds=2,
        catalog=catalog,
        starting=lambda path, assembly, resumed: started.append((path.name, assembly.spec.seed, resumed)),
    )
    assert started == [("seed-4", 4, False), ("seed-5", 5, False)]
    assert (found.finished, found.first_process) == (True, True)
    assert found.summary == json.loads((tmp_path / "a" / "summary.json").read_text())
    longer = resume_training(tmp_path / "a", sets=["training.steps=3"], catalog=catalog)
    assert [outcome.step for outcome in longer.outcomes.values()] == [3, 3]
    assert longer.plain()["runs"][str(tmp_path / "a" / "seed-5")]["step"] == 3


def test_one_seed_is_trained_into_the_directory_itself_and_has_no_summary(catalog, tmp_path):
    found = train_seeds(read_spec(catalog, sets=SETS), str(tmp_path / "a"), catalog=catalog)
    assert list(found.outcomes) == [tmp_path / "a"]
    assert found.summary is None
    assert (tmp_path / "a" / "results.json").exists()


def test_a_summary_has_the_groups_of_the_first_run_wherever_they_are(tmp_path):
    runs = {tmp_path / "0": outcome(0.5, {"1": 1.0, "2": 0.0}), tmp_path / "1": outcome(0.7, {"1": 0.5})}
    summary = RunOutcomes(tmp_path, runs).summary
    assert summary["runs"] == 2
    assert summary["splits"]["dev"]["all"]["mean"] == pytest.approx(0.6)
    assert summary["splits"]["dev"]["1"]["min"] == 0.5
    assert summary["splits"]["dev"]["2"] == spread([0.0])


def test_a_new_directory_has_the_first_free_number(tmp_path):
    for name in ("lstm", "lstm-2", "lstm-3"):
        path = new_directory("lstm", tmp_path)
        assert path == tmp_path / name
        path.mkdir()


def test_an_empty_or_truncated_file_of_seeds_is_refused_and_nothing_is_trained(catalog, tmp_path):
    (tmp_path / "seed-0").mkdir()
    write_spec(read_spec(catalog, sets=SETS), tmp_path / "seeds.toml", ["trained from 2 seeds"])
    whole = (tmp_path / "seeds.toml").read_bytes()
    for content in (b"", whole[: len(whole) // 2]):
        (tmp_path / "seeds.toml").write_bytes(content)
        with pytest.raises(CrvnnError, match=r"seeds.toml is damaged: .*crvnn train --resume .*/seed-N"):
            resume_training(tmp_path, catalog=catalog)
    assert list((tmp_path / "seed-0").iterdir()) == []


def test_seeds_whose_directory_is_gone_are_trained_too(catalog, tmp_path):
    spec = read_spec(catalog, sets=SETS)
    whole = train_seeds(spec, tmp_path / "a", seeds=2, catalog=catalog)
    shutil.rmtree(tmp_path / "a" / "seed-1")
    started = []
    found = resume_training(
        tmp_path / "a",
        catalog=catalog,
        starting=lambda path, _, resumed: started.append((path.name, resumed)),
    )
    assert started == [("seed-0", True), ("seed-1", False)]
    assert found.summary == whole.summary


def test_only_one_process_trains_the_seeds_of_a_directory(catalog, tmp_path):
    spec = read_spec(catalog, sets=SETS)
    held = RunDirectory(tmp_path / "a").lock(create=True)
    with held, pytest.raises(CrvnnError, match="another process is training in"):
        train_seeds(spec, tmp_path / "a", seeds=2, catalog=catalog)
    assert list((tmp_path / "a").iterdir()) == []
