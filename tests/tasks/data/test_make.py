"""``crvnn data make``: the published numbers, the same bytes every time, and files that are whole or not there."""

import gzip
import json
import os
import statistics
import subprocess
import sys
from collections import Counter

import pytest
from click.testing import CliRunner

from crvnn_core import CrvnnError
from crvnn_tasks.data.make import make
from crvnn_tasks.listops.task import ListOps, split_of
from crvnn_tasks.logic.language import operations
from crvnn_tasks.logic.task import Logic
from listops_reference import answer, read


def run(*arguments, catch=False):
    return CliRunner().invoke(make, [str(argument) for argument in arguments], catch_exceptions=catch)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A hundred thousand rows of the published distribution, and what was said about them."""
    path = tmp_path_factory.mktemp("made") / "listops.tsv"
    result = run("listops", "--rows", 100_000, "--seed", 0, "--out", path, "--json")
    assert result.exit_code == 0
    return path, json.loads(result.stdout)


def test_the_published_numbers_come_out(published):
    path, said = published
    lengths = [line.count(" ") + 1 for line in path.read_text().splitlines()]
    assert len(lengths) == 100_000
    assert statistics.mean(lengths) == pytest.approx(42.8, abs=0.7)
    assert statistics.median(lengths) == 16
    assert sum(length <= 100 for length in lengths) / 100_000 == pytest.approx(0.893, abs=0.005)
    assert said["tokens"] == {
        "mean": pytest.approx(statistics.mean(lengths)),
        "median": 16,
        "at_most_100": sum(length <= 100 for length in lengths) / 100_000,
    }


def test_answers_agree_with_an_independent_evaluator(published):
    path, said = published
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    assert all(int(label) == answer(read(text.split())) for label, text in rows[::20])
    assert len({text for _, text in rows}) == len(rows)
    assert Counter(label for label, _ in rows) == said["labels"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("listops", "--rows", "20", "--min-tokens", "200", "--max-tokens", "300"),
        ("logic", "--rows", "300"),
    ],
)
def test_another_process_makes_the_same_bytes(tmp_path, arguments):
    code = "import sys\nfrom crvnn_tasks.data.make import make\nmake(sys.argv[1:])"
    out, here = tmp_path / "there.gz", tmp_path / "here.gz"
    subprocess.run(
        [sys.executable, "-c", code, *arguments, "--out", str(out)],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        check=True,
        capture_output=True,
    )
    run(*arguments, "--out", here)
    assert out.read_bytes() == here.read_bytes()
    assert out.read_bytes()[3:8] == bytes(5)  # neither a name nor a time
    there = run(*arguments)
    assert gzip.decompress(out.read_bytes()) == there.stdout_bytes
    assert run(*arguments, "--seed", "1").stdout_bytes != there.stdout_bytes


def test_no_torch_is_needed():
    code = (
        "import sys\nfrom crvnn_tasks.data.make import make\n"
        "make(['listops', '--rows', '2'], standalone_mode=False)\n"
        "make(['listops', '--rows', '2', '--min-tokens', '50', '--max-tokens', '60'], standalone_mode=False)\n"
        "make(['logic', '--rows', '2'], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_rows_go_to_standard_output_and_what_is_said_does_not():
    result = run("listops", "--rows", 3)
    assert len(result.stdout.splitlines()) == 3
    assert all(line[0].isdigit() and line[1] == "\t" for line in result.stdout.splitlines())
    lengths = [line.count(" ") + 1 for line in result.stdout.splitlines()]
    assert result.stderr == (
        f"3 rows; tokens: mean {statistics.mean(lengths):.1f}, median {statistics.median(lengths):g}, "
        "100.0% at most 100\n"
    )


def test_rows_go_to_a_file_and_what_is_said_to_standard_output_with_progress_on_standard_error(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("crvnn_core.display.progress.Lines.interval", 1e-9)
    out = tmp_path / "new" / "rows.tsv"
    result = run("listops", "--rows", 300, "--out", out)
    assert out.read_text() == run("listops", "--rows", 300).stdout
    assert result.stdout.startswith(f"{out}: 300 rows; tokens: mean ")
    assert "generating rows: 100 of 300" in result.stderr


def test_what_was_there_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr("crvnn_tasks.logic.language._ATTEMPTS", 20_000)
    out = tmp_path / "rows.tsv"
    out.write_text("precious")
    with pytest.raises(CrvnnError, match="only 36 distinct rows of this kind were found; use --rows 36"):
        run("logic", "--operations", 0, "--rows", 37, "--out", out)
    assert out.read_text() == "precious"
    assert run("logic", "--operations", 0, "--rows", 36, "--out", out).exit_code == 0
    assert len(out.read_text().splitlines()) == 36
    assert [path.name for path in tmp_path.iterdir()] == ["rows.tsv"]


def test_every_setting_of_listops_is_heard(tmp_path):
    out = tmp_path / "rows.tsv"
    shape = "--min-tokens 30 --max-tokens 40 --max-depth 4 --min-arguments 3 --max-arguments 7"
    run(
        "listops",
        *shape.split(),
        *["--operator-probability", "0.5", "--split", "test", "--rows", "200", "--out"],
        out,
    )
    seen = Counter()
    for example in ListOps().read(out):
        tokens = example.sequences[0]
        assert 30 <= len(tokens) <= 40
        assert split_of(tokens) == "test"
        arguments = [0]
        for token in tokens:
            if token.startswith("["):
                arguments[-1] += 1
                arguments.append(0)
                assert len(arguments) <= 4
            elif token == "]":
                seen[arguments.pop()] += 1
            else:
                arguments[-1] += 1
    assert set(seen) == {3, 4, 5, 6, 7}


def test_listops_rows_may_have_the_published_parentheses(tmp_path):
    plain, out = tmp_path / "plain.tsv", tmp_path / "bracketed.tsv"
    run("listops", "--rows", 100, "--out", plain)
    run("listops", "--rows", 100, "--brackets", "--out", out)
    assert all(line.split("\t")[1].startswith("( ( ( ") for line in out.read_text().splitlines())
    assert list(ListOps().read(out)) == list(ListOps().read(plain))


@pytest.mark.parametrize(("wanted", "numbers"), [("7", {7}), ("0-12", set(range(13)))])
def test_logic_rows_have_the_operations_asked_for(tmp_path, wanted, numbers):
    out = tmp_path / "rows"
    run("logic", "--rows", 600, "--operations", wanted, "--out", out)
    assert {operations(example.sequences) for example in Logic().read(out)} == numbers


@pytest.mark.parametrize("wanted", ["x", "5-3", "13", "1-2-3"])
def test_operations_that_do_not_exist_are_refused(wanted):
    result = run("logic", f"--operations={wanted}")
    assert result.exit_code == 2
    assert "nor a range such as 0-6" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--max-tokens", "3"), "--max-tokens must be 0, or at least 4"),
        (
            ("--min-tokens", "9", "--max-tokens", "8"),
            "--min-tokens must be 0, or at most --max-tokens (8), not 9",
        ),
        (("--max-arguments", "10"), "--max-tokens must be given: with --max-arguments = 10"),
        (("--operator-probability", "1"), "--operator-probability must be between 0 and 1"),
        (("--rows", "0"), "Invalid value for '--rows'"),
        (("--json",), "--json needs --out FILE"),
        (("--out", "."), "Invalid value for '--out'"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_their_option(arguments, message):
    result = run("listops", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not result.stdout


def test_a_reader_who_has_seen_enough_ends_it_quietly():
    code = "import sys\nfrom crvnn_tasks.data.make import make\nmake(sys.argv[1:])"
    making = subprocess.Popen(
        [sys.executable, "-c", code, "listops", "--rows", "50000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert making.stdout.readline().endswith(b"]\n")
    making.stdout.close()
    said = making.stderr.read()
    making.stderr.close()
    assert making.wait() == 1
    assert said == b""
