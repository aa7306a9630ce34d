"""``crvnn doctor``: what it looks at, and what it advises."""

import json

import pytest

from calling import run
from crvnn_core.cli import doctor
from crvnn_core.cli.doctor import Finding
from crvnn_core.cli.session import Session
from crvnn_core.host.manager import BrokenPlugin, Source
from crvnn_core.kernels import without

QUICK = ("python", "kernels", "plugins", "extras", "disk")


@pytest.fixture
def quick(monkeypatch):
    """Without the training, which the first test includes."""
    monkeypatch.setattr(doctor, "LOOKS", [look for look in doctor.LOOKS if look.__name__ in QUICK])


def test_a_healthy_installation_has_no_problem_and_trains():
    facts = json.loads(run("doctor", "--json").stdout)
    assert facts["healthy"]
    subjects = {finding["subject"] for finding in facts["findings"]}
    assert {"python", "torch", "kernels", "plug-ins", "extras", "disk", "training"} <= subjects
    trained = next(finding for finding in facts["findings"] if finding["subject"] == "training")
    assert trained["text"].startswith("5 steps")


def test_it_says_what_to_do_next(quick):
    text = run("doctor").stdout
    assert "Everything works. Next: crvnn demo" in text
    assert "PROBLEM" not in text


def test_a_broken_plug_in_is_a_problem_with_advice(quick, monkeypatch):
    broken = Finding("plug-ins", "problem", "x 1.0 could not be loaded: no module named y", "repair it")
    monkeypatch.setattr(doctor, "LOOKS", [lambda session: iter([broken])])
    text = run("doctor", code=1).stdout
    assert "PROBLEM  plug-ins  x 1.0 could not be loaded" in text
    assert "-> repair it" in text
    assert "1 problem found." in text


def test_plug_ins_that_could_not_be_loaded_are_found():
    source = Source("their-plugin", "their-cell", "2.0")

    class Catalog:
        components, broken = {}, [BrokenPlugin(source, "ImportError: no module named 'fancy'")]

    class WithBroken(Session):
        catalog = Catalog

    found = [finding for finding in doctor.plugins(WithBroken()) if finding.status == "problem"]
    assert len(found) == 1
    assert "their-cell 2.0 could not be loaded" in found[0].text
    assert "fancy" in found[0].text


def test_whatever_is_wrong_with_one_thing_the_others_are_looked_at(monkeypatch):
    def torch(session):
        raise OSError("libcudart.so.12: cannot open shared object file")

    monkeypatch.setattr(doctor, "LOOKS", [torch, doctor.disk])
    text = run("doctor", code=1).stdout
    assert "PROBLEM  torch     OSError: libcudart.so.12: cannot open shared object file" in text
    assert "GiB free" in text


def test_a_full_disk_and_one_that_cannot_be_written_to_are_problems(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1 << 20}))
    (found,) = doctor.disk(Session())
    assert found.status == "problem"
    assert "make room" in found.advice
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    (found,) = doctor.disk(Session())
    assert "cannot be written to" in found.text


def test_missing_extras_are_noted_with_the_command_that_adds_them(monkeypatch):
    requirements = ["torch>=2.6", 'no-such-package>=1; extra == "sweep"', "attrs>=1; extra == 'explore'"]
    monkeypatch.setattr(doctor, "requires", lambda name: requirements)
    installed, missing = doctor.extras(Session())
    assert installed.text == "installed: explore"
    assert missing.text == "not installed: sweep (no-such-package)"
    assert "pip install" in missing.advice


def test_kernels_that_are_switched_off_are_noted():
    with without():
        found = list(doctor.kernels(Session()))
    assert found
    assert {finding.status for finding in found} == {"note"}
