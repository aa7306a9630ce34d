"""The plot of time and memory against length."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench_cli import run
from crvnn_bench import plot


def results(**powers):
    points = [
        {"contender": name, "length": length, "seconds": 0.01 * value, "bytes": int(1e7 * value)}
        for name, power in powers.items()
        for length in (1000, 4000, 32000)
        if (value := (length / 1000) ** power)
    ]
    return {
        "bench": "lengths",
        "environment": {"cpu": "A & B <fast>", "threads": 2, "torch": "2.4", "seed": 0, "date": "2024-01-01"},
        "setup": {"max_steps": 8},
        "width": 128,
        "points": points,
        "exponents": {name: {"time": power, "memory": power} for name, power in powers.items()},
    }


SVG = "{http://www.w3.org/2000/svg}"


def texts(root):
    return ["".join(element.itertext()).strip() for element in root.iter(f"{SVG}text")]


def points(drawn):
    """How many points each line has."""
    groups = {group.get("id", ""): group for group in ET.fromstring(drawn).iter(f"{SVG}g")}
    return {
        name: len(list(group.iter(f"{SVG}use")))
        for name, group in groups.items()
        if name.startswith(("time-", "memory-"))
    }


def test_the_plot_is_xml_and_has_every_contender_with_its_exponent():
    root = ET.fromstring(plot.draw(results(crvnn=1.0, dense=1.97, lstm=1.02)))
    found = texts(root)
    for label in ("crvnn, n^1.00", "dense, n^1.97", "lstm, n^1.02"):
        assert found.count(label) == 2  # in the panel of time and in that of memory
    axes = {"1,000", "4,000", "32,000", "10 ms", "100 ms", "10 MB", "100 MB", "Time", "Peak memory"}
    assert axes <= set(found)
    assert any("A & B <fast>" in text for text in found)


def test_what_was_not_measured_is_not_drawn():
    partial = results(crvnn=1.0, dense=2.0, lstm=1.0)
    for point in [*partial["points"][4:6], *partial["points"][6:]]:
        point["seconds"] = point["bytes"] = None
    drawn = plot.draw(partial)
    assert points(drawn) == {"time-crvnn": 3, "time-dense": 1, "memory-crvnn": 3, "memory-dense": 1}
    assert "lstm" not in drawn


def test_equal_results_give_equal_files():
    assert plot.draw(results(crvnn=1.0)) == plot.draw(results(crvnn=1.0))


def test_the_published_results_give_the_published_plot(tmp_path):
    docs = Path(__file__).parents[2] / "docs"
    run("plot", docs / "benchmarks" / "lengths.json", "-o", tmp_path / "speed.svg")
    drawn, published = (
        ET.parse(path).getroot() for path in (tmp_path / "speed.svg", docs / "images" / "speed.svg")
    )
    assert texts(drawn) == texts(published)


def test_without_matplotlib_the_message_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    saved = tmp_path / "lengths.json"
    saved.write_text(json.dumps(results(crvnn=1.0)))
    error = run("plot", saved, "-o", tmp_path / "x.svg", code=2).stderr
    assert "pip install 'crvnn[plot]'" in error
    assert not (tmp_path / "x.svg").exists()


def test_matplotlib_is_imported_by_no_other_command():
    code = "import sys; import crvnn_bench.plot, crvnn_bench.commands; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "this is not JSON"),
        ("[]", "there are no results in it"),
        ('{"bench": "speed"}', "these are results of 'crvnn bench speed'"),
        (
            '{"bench": "lengths"}',
            "these are results of 'crvnn bench lengths'; the plot is made of the complete",
        ),
    ],
)
def test_a_file_that_cannot_be_drawn_is_named(tmp_path, content, message):
    path = tmp_path / "results.json"
    path.write_text(content)
    error = run("plot", path, "-o", tmp_path / "x.svg", code=2).stderr
    assert f"{path}: {message}" in error
    assert not (tmp_path / "x.svg").exists()
