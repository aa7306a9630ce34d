"""Every code block of the documentation runs, and the reference says what the code says."""

import difflib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from attrs import frozen
from click.testing import CliRunner

from crvnn_core import SLOTS, create_plugin_manager, read_catalog
from crvnn_core.cli import main
from crvnn_core.host import hooks
from crvnn_core.testing import CHECKS
from venvs import throwaway_venv

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(page for part in ("tutorial", "how-to", "explanation") for page in DOCS.glob(f"{part}/*.md")),
]
ALL_PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("**/*.md"))]


def named(page):
    return page.relative_to(ROOT).as_posix()


# Code blocks.


@frozen
class Block:
    """A fenced block: its language, the line it begins on, its text, and the file it is to be written to."""

    language: str
    line: int
    text: str
    file: str | None


FENCE = re.compile(r"```(\w*)$")
FILE = re.compile(r"<!-- file: (\S+) -->$")

#: Runs the blocks of a page, in one process, so that Python blocks share their names.
DRIVER = r"""
import json, subprocess, sys, traceback
from pathlib import Path

page, blocks = json.loads(sys.stdin.read())
names = {"__name__": "__main__"}
for block in blocks:
    if block["file"]:
        Path(block["file"]).parent.mkdir(parents=True, exist_ok=True)
        Path(block["file"]).write_text(block["text"], encoding="utf-8")
        continue
    try:
        if block["language"] == "python":
            # As many empty lines as stand above it, so that a traceback has the page's own line numbers.
            exec(compile("\n" * block["line"] + block["text"], page, "exec"), names)
        else:
            subprocess.run(["bash", "-euo", "pipefail", "-c", block["text"]], check=True, stdin=subprocess.DEVNULL)
    except BaseException:
        traceback.print_exc()
        sys.exit(f"{page}:{block['line']}: this {block['language']} block fails")
    sys.stdout.flush()
"""


def read_blocks(text):
    """The blocks of a page that are to be run or written, in order."""
    blocks, inside, begun, before = [], None, 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if inside is None and (fence := FENCE.match(line)):
            inside, begun, language, file = [], number, fence[1], FILE.match(before)
        elif inside is not None and line == "```":
            if file or language in ("python", "console", "bash"):
                content = "".join(f"{each}\n" for each in inside)
                blocks.append(Block(language, begun, content, file[1] if file else None))
            inside = None
        elif inside is not None:
            inside.append(line)
        before = line.strip() or before
    return blocks


def run_page(text, name, directory, commands=""):
    """Run a page's blocks in a directory of their own."""
    blocks = read_blocks(text)
    installs = any(block.language != "python" and "pip install" in block.text for block in blocks)
    environment = throwaway_venv(directory / ".venv", commands) if installs else dict(os.environ)
    if not installs:
        places = [commands, str(Path(sys.executable).parent), os.environ["PATH"]]
        environment["PATH"] = os.pathsep.join(filter(None, places))
    # One thread: more of them, on cores that other tests are using as well, mostly wait for each other.
    environment |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    python = directory / ".venv" / "bin" / "python" if installs else sys.executable
    return subprocess.run(
        [python, "-c", DRIVER],
        input=json.dumps([name, [{key: getattr(b, key) for key in Block.__annotations__} for b in blocks]]),
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


#: Packages of an extra that a page's blocks need.
NEEDED = {"docs/how-to/export.md": ("onnx", "onnxscript", "onnxruntime")}


@pytest.mark.parametrize("page", [page for page in PAGES if read_blocks(page.read_text("utf-8"))], ids=named)
def test_every_code_block_of_the_page_runs(page, tmp_path, commands):
    missing = [name for name in NEEDED.get(named(page), ()) if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed (an extra)")
    done = run_page(page.read_text(encoding="utf-8"), named(page), tmp_path, commands)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"


def test_a_failing_block_is_named_with_its_page_and_line(tmp_path):
    page = "# Title\n\n```python\nx = 1\n```\n\n```text\nnot run\n```\n\n```console\ntest -e nothing\n```\n"
    done = run_page(page, "docs/page.md", tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("docs/page.md:11: this console block fails\n")


def test_a_failing_python_block_shows_the_line_of_the_page(tmp_path):
    done = run_page("\n```python\nx = 1\n```\n```python\ny = x\nz\n```\n", "docs/page.md", tmp_path)
    assert 'File "docs/page.md", line 7' in done.stderr


def test_a_block_under_a_file_comment_is_written_and_not_run(tmp_path):
    page = (
        "<!-- file: sub/a.py -->\n```python\nraise SystemExit\n```\n"
        "```python\nfrom pathlib import Path\n```\n"
        "```bash\ncp sub/a.py b.py\n```\n"
        "```python\nassert Path('b.py').read_text() == 'raise SystemExit\\n'\n```\n"
    )
    done = run_page(page, "page", tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_throwaway_environment_installs_a_package_for_itself_alone(tmp_path):
    page = "```console\ncrvnn new halting soon\npip install -q -e soon\ncrvnn list halting soon\n```\n"
    done = run_page(page, "page", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "from soon 0.1.0" in done.stdout
    assert "soon" not in read_catalog(create_plugin_manager()).components["halting"]


def test_the_error_that_a_page_shows_is_what_crvnn_says(tmp_path, monkeypatch):
    page = (DOCS / "how-to" / "compose-a-variant.md").read_text(encoding="utf-8")
    for block in read_blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(main, ["assemble", "wrong.toml"])
    assert said.exit_code == 2
    assert f"```text\n{said.output}```" in page


# The reference.


def script(name):
    """A program of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generator():
    return script("make_reference")


def reference(name):
    return (DOCS / "reference" / name).read_text(encoding="utf-8")


def test_the_reference_is_what_the_code_says(generator):
    pages = generator.pages()
    found = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md")}
    stale = sorted(name for name in pages.keys() | found.keys() if pages.get(name) != found.get(name))
    changes = [
        line
        for name in stale
        for line in difflib.unified_diff(
            *(source.get(name, "").splitlines() for source in (found, pages)), n=0
        )
    ]
    assert not stale, "\n".join([f"run make docs: {', '.join(stale)} would change", *changes[:20]])


def test_writing_the_reference_twice_gives_the_same_pages(generator):
    assert generator.pages() == generator.pages()


def test_the_picture_of_the_recursion_is_what_the_engine_does():
    assert script("make_picture").picture() == (DOCS / "images" / "recursion.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("hook", [name for name in vars(hooks) if name.startswith("crvnn_")])
def test_every_hook_is_in_the_reference(hook):
    assert f"## {hook}\n" in reference("hooks.md")


@pytest.mark.parametrize("slot", SLOTS)
def test_every_built_in_component_is_in_the_reference(slot):
    offers = read_catalog(create_plugin_manager()).components[slot].values()
    ours = [offer.component.name for offer in offers if offer.source.package == "crvnn"]
    text = reference("components.md")
    assert [name for name in ours if f"### {slot} `{name}`\n" not in text] == []


def test_the_index_names_every_built_in_component_in_the_row_of_its_slot():
    catalog = read_catalog(create_plugin_manager())
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    table = text.partition("## Built-in components")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| ([a-z, ]+) \| (.*) \|$", table, re.MULTILINE))
    del rows["slot"]
    assert sorted(", ".join(rows).split(", ")) == sorted(SLOTS)
    for slots, parts in rows.items():
        offered = {name for slot in slots.split(", ") for name in catalog.components[slot]}
        assert set(re.findall(r"`([^`]+)`", parts)) == offered, slots


@pytest.mark.parametrize("slot", SLOTS)
def test_every_check_of_a_contract_is_in_the_reference(slot):
    text = reference("contracts.md")
    assert [check.__name__ for check in CHECKS[slot] if f"| `{check.__name__}` |" not in text] == []


def test_every_command_and_each_of_its_options_is_in_the_reference(generator):
    text = reference("commands.md")
    for path, command, ctx in generator.commands():
        _, found, rest = text.partition(f"\n## {path}\n")
        assert found, f"'{path}' is missing"
        section = rest.partition("\n## ")[0]
        options = [o for o in command.get_params(ctx) if isinstance(o, click.Option)]
        missing = [
            name for o in options for name in (*o.opts, *o.secondary_opts) if f"`{name}`" not in section
        ]
        assert not missing, f"'{path}' lacks {missing}"


def test_every_key_of_the_spec_is_in_the_reference(generator):
    text = reference("spec.md")
    assert [key for key in generator.spec_keys() if f"| `{key}` |" not in text] == []


def test_every_preset_is_in_the_reference():
    presets = read_catalog(create_plugin_manager()).presets.values()
    ours = [preset.name for preset, source in presets if source.package == "crvnn"]
    assert [name for name in ours if f"### `{name}`\n" not in reference("spec.md")] == []


# Pages and links.


@pytest.mark.parametrize("slot", SLOTS)
def test_every_slot_has_a_how_to_page(slot, generator):
    assert (DOCS / "how-to" / generator.how_to(slot)).is_file()


def test_the_index_leads_to_every_page():
    linked = {target for target, _ in links(DOCS / "index.md")}
    pages = {page for page in DOCS.glob("**/*.md") if page.name != "index.md"}
    assert sorted(named(page) for page in pages - linked) == []


@pytest.mark.parametrize("page", ALL_PAGES, ids=named)
def test_every_relative_link_leads_somewhere(page):
    for target, anchor in links(page):
        assert target.exists(), f"{named(page)} links to {target}, which does not exist"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{named(page)} links to #{anchor}, which {named(target)} lacks"


def links(page):
    """The files, and places in them, that a page links to; addresses of the web are left out."""
    text = outside_code(page)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", link):
            path, _, anchor = link.partition("#")
            yield ((page.parent / path).resolve() if path else page), anchor


def anchors(page):
    """The places of a page, as GitHub makes them of headings."""
    titles = re.findall(r"^#+ (.+)$", outside_code(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def outside_code(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
