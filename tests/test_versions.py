"""The page about versions of torch says what pyproject.toml asks for and what the code uses."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "explanation" / "versions.md").read_text(encoding="utf-8")
SOURCES = "".join(
    path.read_text(encoding="utf-8")
    for folder in ("crvnn_core", "plugins", "tasks")
    for path in sorted((ROOT / folder).glob("**/*.py"))
)
#: Release by name, of the rows ``| `name` ... | 2.6 | ... |``.
RELEASES = dict(re.findall(r"^\| `([^`]+)`[^|]* \| (\d+\.\d+) \|", PAGE, flags=re.MULTILINE))


def as_numbers(release):
    return tuple(map(int, release.split(".")))


def floor():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (needed,) = (each for each in project["dependencies"] if re.match(r"torch\W", each))
    return re.fullmatch(r"torch>=(\d+\.\d+)", needed)[1]


def test_the_page_and_pyproject_name_the_same_floor():
    assert f"crvnn needs **torch {floor()}** or later" in PAGE


def test_the_floor_is_the_latest_first_release_in_the_table():
    assert max(RELEASES.values(), key=as_numbers) == floor()


def test_the_code_uses_a_name_that_sets_the_floor():
    setting = [name.rpartition(".")[2] for name, release in RELEASES.items() if release == floor()]
    assert any(name in SOURCES for name in setting)


def test_every_private_name_of_torch_that_the_code_uses_is_on_the_page():
    used = set(re.findall(r"\btorch\._C\.\w+|\btorch\.utils\._\w+|\bforward_ad\._\w+", SOURCES))
    assert used
    assert sorted(name for name in used if f"`{name}`" not in PAGE) == []
