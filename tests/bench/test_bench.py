"""``crvnn bench``: what is measured, how it is measured, and what is said of it."""

import gc
import itertools
import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
import torch
from click.testing import CliRunner

from crvnn_bench.contenders.build import RECURSIVE, Field, check_contenders, known_contenders
from crvnn_bench.contenders.dense import DenseEngine
from crvnn_bench.experiments import lengths, speed
from crvnn_bench.experiments.shortcuts import Setting, effects, rows_of, settings
from crvnn_bench.measurement import timing
from crvnn_bench.measurement.memory import Meter, Peak, Request, measure, read_request, tensor_peak
from crvnn_bench.measurement.products import Floor, Product, products_of
from crvnn_bench.measurement.profile import profile_step
from crvnn_bench.measurement.work import forward, ready, training_step
from crvnn_bench.report import plot
from crvnn_bench.report.environment import cpu_model
from crvnn_bench.setup import Setup
from crvnn_bench.workloads import Range, random_batch, read_range, samples_of
from crvnn_core import CrvnnError, InputError
from crvnn_core.cli import main
from crvnn_core.training.data import collate

SMALL = ("--width", "8", "--threads", "1")


def run(*args, code=0):
    result = CliRunner().invoke(main, ["bench", *map(str, args)], prog_name="crvnn")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def answer(*args):
    return json.loads(run(*args, "--json").stdout)


@pytest.fixture
def field(catalog):
    return Field(Setup(width=8), catalog)


# Workloads


@pytest.mark.parametrize(("text", "low", "high"), [("701-1000", 701, 1000), (" 1000 ", 1000, 1000)])
def test_lengths_are_a_range_or_one_number(text, low, high):
    assert read_range(text) == Range(low, high)


@pytest.mark.parametrize("text", ["", "long", "100-81", "3", "81-", "-5"])
def test_lengths_that_make_no_sense_are_refused(text):
    with pytest.raises(InputError, match="expected as 701-1000 or 1000"):
        read_range(text)


def test_samples_come_in_whole_batches_and_at_least_one():
    assert [len(batch) for batch in samples_of(Range(20, 30), 4, 10, seed=0)] == [4, 4]
    (batch,) = samples_of(Range(20, 30), 4, 1, seed=0)
    assert len(batch) == 4
    assert all(20 <= len(example.sequences[0]) <= 30 for example in batch)
    assert samples_of(Range(20, 30), 4, 1, seed=0) == [batch]
    assert samples_of(Range(20, 30), 4, 1, seed=1) != [batch]


# Contenders


def test_every_contender_can_be_built_and_does_a_training_step(catalog, field):
    for name in known_contenders(catalog):
        model = ready("forward" if name == "crvnn-hard" else "train", field.build(name))
        batch = random_batch(9, model.vocabulary, 0)
        steps = forward(model, batch) if name == "crvnn-hard" else training_step(model, batch)
        assert steps.shape == (1,), name


def test_recursive_contenders_share_weights_and_differ_in_what_their_name_says(field):
    base = field.base.encoder.state_dict()
    models = {name: field.build(name) for name in RECURSIVE}
    for name, model in models.items():
        assert all(torch.equal(base[key], value) for key, value in model.encoder.state_dict().items()), name
    engines = {name: model.encoder for name, model in models.items()}
    assert isinstance(engines["dense"], DenseEngine)
    assert [name for name in RECURSIVE if name != "dense" and engines[name].checkpoint] == [
        "crvnn-checkpointed"
    ]
    assert [name for name in RECURSIVE if name != "dense" and not engines[name].shortcuts] == ["crvnn-plain"]
    assert [name for name in RECURSIVE if name != "dense" and engines[name].hard] == ["crvnn-hard"]
    assert [name for name in RECURSIVE if name != "dense" and "forward" in vars(engines[name])] == [
        "crvnn-torch"
    ]
    assert type(engines["dense-retriever"].retriever).__name__ == "AdhocDense"
    assert type(engines["crvnn"].retriever).__name__ == "Adhoc"


def test_the_dense_engine_gives_the_vectors_of_this_one(field):
    models = [field.build(name).eval() for name in ("crvnn", "dense", "crvnn-plain", "dense-retriever")]
    (group,) = samples_of(Range(20, 60), 3, 3, seed=0)
    with torch.no_grad():
        vectors = [model(collate(group, model.vocabulary)).encodings[0].vector for model in models]
    for other in vectors[1:]:
        torch.testing.assert_close(other, vectors[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["crvnn", "dense"])
def test_without_halting_everyone_takes_as_many_steps_as_asked_for(catalog, name):
    model = Field(Setup(width=8, halting=False, max_steps=5), catalog).build(name)
    assert forward(model.eval(), random_batch(40, model.vocabulary, 0)).tolist() == [5]


def test_a_contender_that_nobody_knows_is_refused_with_the_nearest(catalog):
    with pytest.raises(CrvnnError, match=r"'densse'\. Did you mean 'dense'"):
        check_contenders(["densse"], catalog, training=True)


def test_hard_inference_is_not_trained(catalog):
    with pytest.raises(CrvnnError, match="crvnn-hard is inference only"):
        check_contenders(["crvnn-hard"], catalog, training=True)
    assert check_contenders(["crvnn-hard", "dense", "dense"], catalog, False) == ["crvnn-hard", "dense"]


def test_a_model_for_another_task_is_refused(letters_run, small_catalog):
    with pytest.raises(CrvnnError, match="this model is for 'letters'; bench measures on ListOps"):
        Field(Setup(weights=str(letters_run)), small_catalog).build("crvnn")


# Timing


class Clock:
    """Goes on only when a job takes its time."""

    def __init__(self):
        self.now = 0.0
        self.order = []

    def __call__(self):
        return self.now

    def job(self, name, seconds):
        def work():
            self.now += seconds
            self.order.append(name)
            return name

        return work


def test_contenders_take_turns_and_each_turn_begins_with_another():
    clock = Clock()
    jobs = {name: [clock.job(name, 1), clock.job(name, 1)] for name in "abc"}
    timing.interleave(jobs, 2, clock=clock)
    assert "".join(clock.order) == "abc" + "bca" + "cab" + "abc"


def test_times_are_kept_by_repeat_and_job():
    clock = Clock()
    timed = timing.interleave({"a": [clock.job("a", 1), clock.job("a", 2)]}, 3, clock=clock)["a"]
    assert timed.seconds == [[1, 2]] * 3
    assert timed.totals() == [3, 3, 3]
    assert timed.results == ["a", "a"]
    assert not timed.cut


def test_a_slow_contender_is_measured_fewer_times_and_compared_on_what_it_did():
    clock = Clock()
    jobs = {
        "quick": [clock.job("quick", seconds) for seconds in (1, 2, 3)],
        "slow": [clock.job("slow", seconds) for seconds in (10, 20, 30)],
    }
    timed = timing.interleave(jobs, 3, limit=25, clock=clock)
    assert timed["slow"].cut
    assert timed["slow"].seconds == [[10, 20]]
    assert len(timed["quick"].seconds) == 3
    assert not timed["quick"].cut
    assert timing.ratio(timed["slow"], timed["quick"]) == 10


def test_a_repeat_that_was_cut_short_is_not_mixed_with_whole_ones():
    clock = Clock()
    slower = iter([1, 1, 50, 1])
    jobs = {"a": [lambda: clock.job("a", next(slower))(), lambda: clock.job("a", next(slower))()]}
    timed = timing.interleave(jobs, 2, limit=10, clock=clock)["a"]
    assert timed.seconds == [[1, 1]]
    assert timed.cut


def test_no_garbage_is_collected_during_a_measurement():
    found = []
    timing.interleave({"a": [lambda: found.append(gc.isenabled())]}, 1)
    assert found == [False]
    assert gc.isenabled()


def test_spread_is_the_median_between_quartiles():
    assert timing.spread([5, 1, 2, 4, 3]) == (2, 3, 4)
    assert timing.spread([7]) == (7, 7, 7)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_found(power):
    sizes = [1000, 2000, 8000, 32000]
    assert timing.exponent(sizes, [3e-4 * size**power for size in sizes]) == pytest.approx(power)


def test_one_size_has_no_exponent():
    assert timing.exponent([1000], [1.0]) is None
    assert timing.exponent([1000, 1000], [1.0, 1.1]) is None


# The floor


def test_the_floor_has_the_products_of_cell_and_scorer_at_every_step(catalog):
    width, depth, tokens = 8, 3, 21
    model = Field(Setup(width=width, halting=False, max_steps=depth), catalog).build("crvnn-plain").train()
    found = products_of(model, random_batch(tokens, model.vocabulary, 0))
    positions = tokens + 2  # START and END
    cell = 2 * width * 4 * width + 4 * width * 4 * width
    convolution, score = 5 * width * width, width
    once = tokens * width * width + positions * width * width + width * 10  # embedding, leaves, head
    total = sum(product.multiply_adds for product in found) / 3
    assert total >= depth * positions * (cell + convolution) + once
    assert total <= depth * positions * (cell + convolution + score) + once
    assert {product.m for product in found} == {1, tokens, positions}


def test_the_floor_does_one_product_forward_and_two_backward(monkeypatch):
    shapes = []
    mm = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b: shapes.append((*a.shape, b.shape[1])) or mm(a, b))
    Floor([Product(5, 3, 2), Product(7, 3, 2)], "cpu")()
    assert shapes == [(5, 3, 2), (7, 3, 2), (7, 2, 3), (2, 7, 3), (5, 2, 3), (2, 5, 3)]


# Memory


def test_more_memory_is_measured_where_more_is_taken():
    def peak(megabytes):
        meter = Meter()
        meter.begin()
        torch.ones(megabytes * 2**18).sum()
        return meter.peak() / 2**20

    assert peak(200) >= 190
    assert peak(64) <= 100


def test_what_tensors_take_is_counted_to_the_byte_where_most_are_alive():
    def job():
        first = torch.ones(2**18)  # 1 MiB
        second = first + first
        del first
        return second + second

    assert tensor_peak(job) == 2 * 2**20


def test_without_proc_the_highest_ever_is_taken(tmp_path):
    meter = Meter(proc=tmp_path / "nothing")
    meter.begin()
    assert "ru_maxrss" in meter.method
    assert meter.peak() >= 0


def test_a_request_arrives_in_the_other_process_as_it_was():
    request = Request(
        setup=Setup(width=8, plugins=("mine.py",)),
        contender="dense",
        work="train",
        lengths=Range(5, 9),
        batch=2,
    )
    assert read_request(request.written()) == request


def test_a_process_that_fails_is_quoted():
    request = Request(
        setup=Setup(weights="no/such/run"), contender="crvnn", work="train", lengths=Range(9, 9)
    )
    with pytest.raises(CrvnnError, match=r"memory of crvnn failed:[^$]*there is no such run directory"):
        measure(request)


def test_the_dense_engine_takes_more_memory_in_a_process_of_its_own():
    found = answer("memory", "--weights", "untrained", "--lengths", 1000, *SMALL, "--contender", "crvnn", "--contender",
                   "dense")  # fmt: skip
    ours, theirs = found["entries"]
    assert (ours["contender"], theirs["contender"]) == ("crvnn", "dense")
    assert theirs["bytes"] > 2 * ours["bytes"] > 0
    assert theirs["tensors"] > 2 * ours["tensors"] > 0
    assert theirs["against"] == pytest.approx(theirs["bytes"] / ours["bytes"])
    assert ours["steps"] == theirs["steps"] > 1
    assert ours["tokens"] == 1000
    assert "resident set" in ours["measured"]


# Lengths


def growing(monkeypatch, **powers):
    """Let memory grow as asked for, without measuring anything."""
    asked = []

    def measured(request):
        asked.append((request.contender, request.lengths.high))
        return Peak(int(request.lengths.high ** powers[request.contender.replace("-", "_")]))

    monkeypatch.setattr(lengths, "measure", measured)
    return asked


def test_a_contender_stops_before_it_would_take_more_memory_than_it_may(monkeypatch, field):
    asked = growing(monkeypatch, crvnn=1, dense=2)
    rows = list(lengths.sweep(field, ["crvnn", "dense"], [8, 16, 32, 64], repeats=1, limit=60, memory=1000))
    points = {(point.contender, point.length): point for row in rows for point in row}
    assert [length for name, length in asked if name == "dense"] == [8, 16]
    assert points["dense", 32].seconds is None
    assert "stopped: it would take some" in points["dense", 64].note
    assert points["crvnn", 64].seconds > 0
    grown = lengths.exponents([point for row in rows for point in row])
    assert grown["crvnn"]["memory"] == pytest.approx(1)
    assert grown["dense"]["memory"] == pytest.approx(2)


def test_a_process_that_ran_out_of_memory_is_no_error(monkeypatch, field):
    monkeypatch.setattr(lengths, "measure", lambda request: Peak(None, note="out of memory"))
    (row,) = lengths.sweep(field, ["crvnn"], [8], repeats=1, limit=60, memory=1000)
    assert row[0].note == "stopped: out of memory"
    assert lengths.exponents(row) == {"crvnn": {"time": None, "memory": None}}


def test_lengths_are_measured_and_can_be_drawn(monkeypatch, tmp_path):
    growing(monkeypatch, crvnn=1, crvnn_checkpointed=1)
    saved = tmp_path / "lengths.json"
    args = ("--length", 12, "--length", 24, "--depth", 2, "--repeats", 2, *SMALL, "-o", saved)
    shown = run("lengths", "--contender", "crvnn", "--contender", "crvnn-checkpointed", *args).stdout
    assert "n^1.00" in shown
    assert "halting off, 2 steps" in shown
    results = json.loads(saved.read_text())
    assert (results["bench"], results["width"]) == ("lengths", 8)
    assert [point["length"] for point in results["points"]] == [12, 12, 24, 24]
    picture = tmp_path / "lengths.svg"
    run("plot", saved, "-o", picture)
    assert "crvnn-checkpointed" in picture.read_text()


# The picture


def results(**powers):
    points, exponents = [], {}
    for name, power in powers.items():
        exponents[name] = {"time": power, "memory": power}
        for length in (1000, 4000, 32000):
            value = (length / 1000) ** power
            points.append(
                {"contender": name, "length": length, "seconds": 0.01 * value, "bytes": int(1e7 * value)}
            )
    environment = {"cpu": "A & B <fast>", "threads": 2, "torch": "2.4", "seed": 0, "date": "2024-01-01"}
    setup = {"max_steps": 8}
    return {
        "bench": "lengths",
        "environment": environment,
        "setup": setup,
        "width": 128,
        "points": points,
        "exponents": exponents,
    }


def test_the_picture_is_xml_and_has_every_contender_with_its_exponent():
    root = ET.fromstring(plot.draw(results(crvnn=1.0, dense=1.97, lstm=1.02)))
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for label in ("crvnnn1.00", "densen1.97", "lstmn1.02"):
        assert texts.count(label) == 2  # in the panel of time and in that of memory
    assert {"1,000", "10,000", "10 ms", "100 ms", "10 MB", "100 MB"} <= set(texts)
    assert len(root.findall(".//{http://www.w3.org/2000/svg}polyline")) == 6
    assert any("A & B <fast>" in text for text in texts)


def test_what_was_not_measured_is_not_drawn():
    partial = results(crvnn=1.0, dense=2.0)
    for point in partial["points"][-2:]:
        point["seconds"] = point["bytes"] = None
    root = ET.fromstring(plot.draw(partial))
    lines = root.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points").split()) for line in lines] == [3, 1, 3, 1]


def test_labels_never_touch_and_stay_in_the_picture():
    places = plot._apart([100, 101, 102, 383, 384], 84, 384)
    assert all(after - before >= 16.9 for before, after in itertools.pairwise(places))
    assert max(places) <= 384
    assert plot._apart([100, 200], 84, 384) == [100, 200]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "this is not JSON"),
        ("[]", "there are no results in it"),
        ('{"bench": "speed"}', "these are results of 'crvnn bench speed'"),
        ('{"bench": "lengths"}', "the results are not whole"),
    ],
)
def test_a_file_that_cannot_be_drawn_is_named(tmp_path, content, message):
    path = tmp_path / "results.json"
    path.write_text(content)
    error = run("plot", path, "-o", tmp_path / "x.svg", code=2).stderr
    assert f"{path}: {message}" in error
    assert not (tmp_path / "x.svg").exists()


# Speed


@pytest.fixture
def roomy(monkeypatch):
    """Every batch fits."""
    monkeypatch.setattr(speed, "measure", lambda request: Peak(1))


def test_speed_gives_times_steps_and_the_floor_and_saves_them(tmp_path, roomy):
    saved = tmp_path / "speed.json"
    args = (
        "--lengths",
        "20-30",
        "--samples",
        2,
        "--repeats",
        2,
        "--batch",
        1,
        "--batch",
        2,
        "--floor",
        *SMALL,
    )
    found = answer("speed", "--weights", "untrained", *args, "-o", saved)
    assert json.loads(saved.read_text()) == found
    assert [(row["batch"], row["contender"]) for row in found["entries"]] == [
        (size, name) for size in (1, 2) for name in ("crvnn", "products", "dense")
    ]
    for row in found["entries"]:
        assert 0 < row["low"] <= row["seconds"] <= row["high"]
        assert row["against"] > 0
        assert (row["weights"], row["lengths"], row["work"]) == ("untrained", "20-30", "train")
        assert (row["batches"], row["repeats"]) == (2 // row["batch"], 2)
    ours, floor, theirs = found["entries"][:3]
    assert ours["against"] == 1
    assert ours["steps"] == theirs["steps"] > 1
    assert floor["steps"] is None
    assert {"torch", "threads", "cpu", "seed", "date"} <= found["environment"].keys()
    assert found["setup"]["width"] == 8
    assert "the optimizer is outside" in found["facts"]["clock"]


def test_a_batch_that_would_take_too_much_memory_is_not_run_and_the_table_says_so(monkeypatch):
    monkeypatch.setattr(speed, "measure", lambda request: Peak(2**30))
    args = ("--lengths", "300", "--samples", 8, "--batch", 8, "--repeats", 1, *SMALL, "--memory", 4)
    shown = run("speed", "--weights", "untrained", "--contender", "dense", *args).stdout
    assert "not run: a batch would take some 8.0 GiB of the 4 allowed" in shown


def test_what_is_over_the_limit_is_measured_fewer_times_and_the_table_says_so():
    args = ("--lengths", "20", "--samples", 3, "--repeats", 3, *SMALL, "--limit", 1e-6)
    shown = run("speed", "--weights", "untrained", "--contender", "crvnn", *args).stdout
    assert "measured on 1 of 3 batches, 1 of 3 times" in shown


def test_hard_inference_is_timed_against_the_forward_pass_of_the_dense_engine():
    args = ("--work", "forward", "--lengths", "12", "--samples", 1, "--repeats", 1)
    found = answer("speed", *args, "--contender", "crvnn-hard", "--contender", "dense")
    assert [row["contender"] for row in found["entries"]] == ["crvnn-hard", "dense"]
    assert {row["weights"] for row in found["entries"]} == {"listops"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("speed", "--lengths", "long"), "lengths 'long': expected as 701-1000 or 1000"),
        (("speed", "--contender", "quickest"), "no contender is called 'quickest'"),
        (("speed", "--contender", "crvnn-hard"), "crvnn-hard is inference only"),
        (("speed", "--contender", "dense", "--floor"), "--floor is about training steps"),
        (("speed", "--weights", "nowhere", "--samples", 1), "nowhere: there is no such run directory"),
        (("memory", "--weights", "nowhere"), "nowhere: there is no such run directory"),
        (("speed", "--device", "toaster"), "--device toaster cannot be used"),
        (("speed", "--weights", "untrained", "--preset", "papre"), "no preset is called 'papre'"),
        (("lengths", "--length", 2), "2 is not in the range"),
    ],
)
def test_a_mistake_gets_one_clear_message(args, message):
    error = run(*args, code=2).stderr
    assert message in error
    assert "Traceback" not in error


# Shortcuts


def test_every_shortcut_is_tried_alone_and_together(field):
    names = [setting.name for setting in settings([0.0, 0.01], field.build("crvnn").encoder)]
    assert names == [
        "none",
        *("drop 0", "skip 0", "drop and skip 0"),
        *("drop 0.01", "skip 0.01", "drop and skip 0.01"),
        *("the model's own", "hard"),
    ]


def test_a_shortcut_alone_leaves_the_other_one_out(field):
    model = field.build("crvnn").eval()
    sizes = []
    model.encoder.cell.register_forward_pre_hook(lambda cell, args: sizes.append(args[0].shape[:-1].numel()))
    batch = random_batch(40, model.vocabulary, 0)
    for setting in (Setting("drop", drop=0.9), Setting("skip", skip=0.2)):
        sizes.clear()
        forward(setting.apply(model), batch)
        assert min(sizes[:-1]) < 42, setting
    sizes.clear()
    forward(Setting("neither").apply(model), batch)
    assert set(sizes[:-1]) == {42}  # the last step makes one node in any case


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


def test_a_large_tolerance_is_seen_to_change_vectors(field):
    found = effects(field, rows_of(3, seed=0), [0.5])
    changes = {effect.setting: effect.largest for effect in found}
    assert changes["none"] == 0
    assert changes["drop and skip 0.5"] > 1e-3


# The profile


PRODUCTS = ("aten::mm", "aten::addmm", "aten::addmm_")


def test_a_profile_tells_forward_from_backward_in_every_slot(field):
    model = field.build("crvnn").train()
    hooks = sum(len(module._forward_hooks) for module in model.modules())
    (group,) = samples_of(Range(12, 20), 1, 1, seed=0)
    found = profile_step(model, [collate(group, model.vocabulary)])
    slots = {share.name: share for share in found.slots}
    assert {"retriever", "scorer", "decision", "cell", "halting", "engine"} <= slots.keys()
    assert (
        slots["retriever"].forward > 0
    )  # with kernels, the gradient of neighbours is made within the scorer's
    for slot in ("scorer", "cell"):
        assert slots[slot].forward > 0
        assert slots[slot].backward > 0
    assert slots["halting"].backward == 0
    assert sum(share.seconds for share in found.slots) == pytest.approx(found.seconds)
    products = sum(share.calls for share in found.operations if share.name in PRODUCTS)
    # Two of the cell and one of the scorer, and one gradient of each; those of weights are made together.
    assert products >= 2 * 3 * slots["cell"].calls
    assert sum(len(module._forward_hooks) for module in model.modules()) == hooks


def test_the_profile_is_shown_as_two_tables():
    shown = run(
        "profile", "--weights", "untrained", "--lengths", 12, "--samples", 1, "--top", 3, *SMALL
    ).stdout
    assert "slot of crvnn" in shown
    assert "operation of crvnn" in shown
    assert "aten::" in shown


# The command


def test_every_command_has_an_example():
    for name in ("speed", "memory", "lengths", "shortcuts", "profile", "plot"):
        assert f"crvnn bench {name}" in run(name, "--help").stdout.partition("Examples:")[2], name


def test_the_command_is_offered_without_importing_torch():
    code = "import sys; import crvnn_bench.commands; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_processor_has_a_name(tmp_path):
    listed = tmp_path / "cpuinfo"
    listed.write_text("processor\t: 0\nmodel name\t: Quick 9000\n")
    assert cpu_model(listed) == "Quick 9000"
    assert isinstance(cpu_model(tmp_path / "nothing"), str)
