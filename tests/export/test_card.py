"""Model cards: YAML that hubs read, and a text that people do."""

import json

import pytest

from crvnn_export.card import model_card

SPEC = {
    "seed": 3,
    "task": {"name": "letters"},
    "model": {"width": 8, "encoder": {"name": "crvnn"}, "cell": "gated"},
}
SCORE = {"examples": 1200, "accuracy": 0.9125, "loss": 0.3}
RESULTS = {"splits": {"dev": {"total": SCORE}, "test": {"total": {**SCORE, "accuracy": 0.5}}}}


def front_matter(card):
    """The YAML of a card; each value is JSON."""
    begin, yaml, _ = card.split("---\n", 2)
    assert begin == ""
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in yaml.splitlines())}


def test_the_front_matter_has_what_hubs_read():
    facts = front_matter(model_card("mine", SPEC, RESULTS))
    assert facts["library_name"] == "crvnn"
    assert facts["pipeline_tag"] == "text-classification"
    assert facts["tags"][-1] == "letters"
    (index,) = facts["model-index"]
    assert index["name"] == "mine"
    assert [metric["value"] for metric in index["results"][0]["metrics"]] == [0.9125, 0.5]


def test_the_hub_library_reads_the_front_matter():
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (the extra 'hub')")
    data = hub.ModelCard(model_card("mine", SPEC, RESULTS)).data
    assert data.library_name == "crvnn"
    assert [result.metric_value for result in data.eval_results] == [0.9125, 0.5]


def test_a_card_names_task_width_seed_parts_and_results():
    card = model_card("mine", SPEC, RESULTS)
    assert "# mine\n" in card
    assert "width 8, trained on the task `letters` with seed 3" in card
    assert "encoder `crvnn`, cell `gated`" in card
    assert "| dev | 1,200 | 91.25 |\n| test | 1,200 | 50.00 |" in card


def test_a_text_of_the_maker_is_the_body():
    card = model_card("mine", SPEC, RESULTS, "# My model\n\nIt is good.\n")
    assert front_matter(card)["library_name"] == "crvnn"
    assert "# My model\n\nIt is good.\n\n## Use\n" in card
    assert "# mine\n" not in card
    whole = "---\nlicense: mit\n---\n# My model\n"  # with front matter of its own
    assert model_card("mine", SPEC, RESULTS, whole) == whole


@pytest.mark.parametrize(
    "results", [{}, {"splits": None}, {"splits": {"dev": {"total": {"accuracy": None}}}}]
)
def test_without_results_none_are_shown(results):
    card = model_card("mine", SPEC, results)
    assert "## Results" not in card
    assert "model-index" not in front_matter(card)
