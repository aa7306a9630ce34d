"""Which seed of a directory is used, and why."""

import json

import pytest

from crvnn_core import CrvnnError
from crvnn_core.errors import CrvnnWarning
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.runs.seeds import announcement, best_seed, holds_seeds, trained_seeds


def make(parent, seed, accuracy=None, development="dev", weights=True):
    """The files of a run that matter here."""
    path = parent / f"seed-{seed}"
    path.mkdir(parents=True)
    (path / "spec.toml").write_text("")
    if weights:
        (path / "weights.safetensors").write_bytes(b"")
    if accuracy is not None:
        facts = {
            "splits": {
                "dev": {"total": {"accuracy": accuracy}},
                "test": {"total": {"accuracy": 1 - accuracy}},
            }
        }
        facts |= {} if development is None else {"development": development}
        (path / "results.json").write_text(json.dumps(facts))
    return path


@pytest.mark.parametrize(
    ("accuracies", "development", "seed", "reason"),
    [
        ((0.5, 0.75, 0.25), "dev", 1, "the best of 3 seeds on 'dev' (75.0%)"),
        ((0.5, 0.75), "test", 0, "the best of 2 seeds on 'test' (50.0%)"),
        (
            (0.75, 0.5),
            "",
            0,
            "the first of 2 seeds: no accuracy on a development split",
        ),  # never the best on test
    ],
)
def test_the_best_on_the_development_split_is_chosen_and_the_reason_given(
    tmp_path, accuracies, development, seed, reason
):
    for number, accuracy in enumerate(accuracies):
        make(tmp_path, number, accuracy, development)
    chosen, said = best_seed(RunDirectory(tmp_path))
    assert (chosen.path, said) == (tmp_path / f"seed-{seed}", reason)


def test_seeds_that_are_not_finished_are_left_out_unless_none_is(tmp_path):
    make(tmp_path, 0)
    make(tmp_path, 1, weights=False)
    with pytest.warns(CrvnnWarning, match=r"without seed-1, not trained to the end; 'crvnn train --resume"):
        assert list(trained_seeds(RunDirectory(tmp_path))) == [0]
    make(tmp_path, 2, 0.5)
    with pytest.warns(CrvnnWarning, match="without seed-0, seed-1,"):
        assert list(trained_seeds(RunDirectory(tmp_path))) == [2]


def test_seeds_without_a_directory_are_named(tmp_path):
    make(tmp_path, 4, 0.5)
    text = "# resolved by crvnn\n# trained from 3 seeds\nseed = 3\n# end\n"
    (tmp_path / "seeds.toml").write_text(text)
    with pytest.warns(CrvnnWarning, match="without seed-3, seed-5, not trained to the end"):
        assert list(trained_seeds(RunDirectory(tmp_path))) == [4]
    (tmp_path / "seeds.toml").write_text("")  # what is trained can be used all the same
    assert list(trained_seeds(RunDirectory(tmp_path))) == [4]


def test_a_directory_without_any_weights_says_how_to_go_on(tmp_path):
    make(tmp_path, 0, weights=False)
    with pytest.raises(
        CrvnnError, match=r"none of its seeds has weights yet; 'crvnn train --resume .*' trains them"
    ):
        best_seed(RunDirectory(tmp_path))


def test_a_run_or_an_empty_directory_holds_no_seeds(tmp_path):
    assert not holds_seeds(RunDirectory(tmp_path))
    path = make(tmp_path, 0, 0.5)
    assert holds_seeds(RunDirectory(tmp_path))
    assert not holds_seeds(RunDirectory(path))


def test_the_seed_that_was_asked_for_needs_no_announcement(tmp_path):
    path = make(tmp_path, 0, 0.5)
    assert announcement(str(path), RunDirectory(path)) == ""
    assert announcement("listops", None) == ""
    said = f"{tmp_path}: using seed-0, the best of 1 seed on 'dev' (50.0%)"
    assert announcement(str(tmp_path), RunDirectory(path)) == said
