"""``crvnn assemble``: what is shown, what is written, and what is said of a wrong spec."""

import json

import pytest

from calling import QUICK, run


def test_assemble_shows_a_table_of_slots():
    text = run("assemble", "--cell", "lstm", *QUICK).stdout
    header, *rows = text.splitlines()
    assert header.split()[:4] == ["slot", "component", "from", "parameters"]
    table = {row.split()[0]: row.split()[1] for row in rows[:8]}
    assert table == {
        "task": "listops",
        "embedding": "random",
        "retriever": "adhoc",
        "scorer": "window",
        "decision": "modulated",
        "cell": "lstm",
        "halting": "threshold",
        "encoder": "crvnn",
    }
    assert "parameters in all. A batch of 16 sequences" in text
    assert "steps on average" in text


@pytest.mark.parametrize("command", [["assemble"], ["train", "--out", "made"]])
def test_a_spec_with_its_data_beside_it_is_used_from_any_directory(command, tmp_path, monkeypatch):
    for name in ("mine", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine" / "rows.csv").write_text("text,label\na fine film,good\na dull film,bad\n" * 5)
    (tmp_path / "mine" / "my.toml").write_text(
        '[task]\nname = "from-file"\ntrain = "rows.csv"\n[model]\nwidth = 8\n'
        "[training]\nepochs = 0\nsteps = 1\nobservers = []\n"
    )
    monkeypatch.chdir(tmp_path / "elsewhere")
    run(*command, "../mine/my.toml")


def test_assemble_shows_each_stage_and_the_model_of_the_last(tmp_path):
    (tmp_path / "my.toml").write_text(
        '[[stages]]\nname = "short"\ntask.rows = 99\n[[stages]]\nmodel.decision = "sigmoid"\n'
    )
    text = run("assemble", tmp_path / "my.toml", *QUICK).stdout
    assert "decision   sigmoid" in text
    *_, header, first, second = (line.strip().split(maxsplit=2) for line in text.splitlines())
    assert header == ["stage", "name", "settings"]
    assert first == ["1", "short", "task.rows=99"]
    assert second == ["2", "model.decision=sigmoid"]
    stages = json.loads(run("assemble", tmp_path / "my.toml", "--json", *QUICK).stdout)["stages"]
    assert stages[0] == {"name": "short", "task": {"rows": 99}}


def test_assemble_prints_json_for_machines():
    facts = json.loads(run("assemble", "--json", *QUICK).stdout)
    assert {row["slot"]: row["component"] for row in facts["rows"]}["cell"] == "gated"
    assert facts["parameters"] > 0
    assert facts["spec"] is None


def test_assemble_writes_a_spec_that_assemble_reads_again(tmp_path):
    out = tmp_path / "runs" / "first"
    args = ["--retriever", "log-space", "--set", "seed=4", *QUICK]
    first = json.loads(run("assemble", *args, "--json", "--out", out).stdout)
    path = out / "spec.toml"
    assert first["spec"] == str(path)
    assert path.read_text().startswith("# resolved by crvnn\n# components from crvnn ")
    again = json.loads(run("assemble", path, "--json").stdout)
    for key in ("rows", "parameters", "loss", "gradient_norm", "mean_steps"):
        assert again[key] == first[key]
    assert f"The resolved spec is in {path}." in run("assemble", path, "--out", out).stdout
    assert list(out.iterdir()) == [path]


@pytest.mark.parametrize(
    "args",
    [
        ["--set", "model.scorer.window=4"],
        ["absent.toml"],
    ],
    ids=" ".join,
)
def test_nothing_is_written_on_an_error(args, tmp_path):
    result = run("assemble", *args, "--out", tmp_path / "made", code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("crvnn: ")
    assert not (tmp_path / "made").exists()


def test_assemble_overwrites_what_it_wrote_itself_and_never_a_spec_of_the_users_own(tmp_path):
    mine = tmp_path / "spec.toml"
    mine.write_text('# mine\npreset = "paper"\n')
    text = run("assemble", mine, "--out", tmp_path, *QUICK, code=2).stderr
    assert "was not written by crvnn, and would be lost" in text
    assert mine.read_text().startswith("# mine")
    mine.unlink()
    for _ in range(2):
        run("assemble", "--out", tmp_path, *QUICK)
