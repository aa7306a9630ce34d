"""What MkDocs cannot read off docs/: the navigation, the API reference, notebooks, and pages from outside of docs/.

mkdocs.yml names this file as a hook; ``make docs-site`` builds the site.
"""

from __future__ import annotations

import ast
import html
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
#: Pages of the repository's top, and their names on the site.
COMMUNITY = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
#: The modules whose public names the API reference has, and the title and first sentence of each page.
API = {
    "crvnn_core.interfaces": ("Interfaces", "What a component of each slot is; plug-ins derive from these classes."),
    "crvnn_core.host": ("Plug-ins", "How plug-ins offer components, presets and models, and how they are found."),
    "crvnn_core.spec": ("Specs", "Specs, and the variants that are assembled from them."),
    "crvnn_core.training": ("Training", "Training, evaluation, and what they give."),
    "crvnn_core.inference": ("Trained models", "Models, and the predictions of trained ones."),
    "crvnn_core.model": ("Models", "A complete model, its batches and its vocabulary."),
    "crvnn_core.runs": ("Runs", "Run directories, and the results that they hold."),
    "crvnn_core.engine": ("Engine", "The recursion, and what it leaves behind."),
    "crvnn_core.trees": ("Trees", "Trees, and scores of them."),
    "crvnn_core.errors": ("Errors", "What goes wrong; ``CrvnnError`` is the base of all."),
}  # fmt: skip
_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation."""
    config.nav = navigation()
    return config


def navigation() -> list[Any]:
    """The pages that docs/index.md leads to, under its headings, then the API reference, notebooks and the rest."""
    nav: list[Any] = [{"Home": "index.md"}]
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        pages = _pages(body)
        if title == "Reference":
            pages.append({"API": [{title: _api_page(name)} for name, (title, _) in api_modules().items()]})
        if pages:
            nav.append({title: pages})
    return [*nav, {"Project": [name for source, name in COMMUNITY.items() if (ROOT / source).exists()]}]


def _pages(body: str) -> list[Any]:
    """The pages that a section of the index links to; a line that ends in a colon begins a group of them."""
    pages: list[Any] = []
    group = pages
    for line in body.splitlines():
        if re.fullmatch(r"[A-Z].*:", line):
            group = []
            pages.append({line[:-1]: group})
        for path in re.findall(r"\]\(([^)\s#:]+\.(?:md|ipynb))\)", line):
            group.append(path.replace(".ipynb", ".md"))
    return pages


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    from mkdocs.structure.files import File

    def add(name: str, content: str | bytes) -> None:
        files.append(File.generated(config, name, content=content))

    for source, name in COMMUNITY.items():
        if (ROOT / source).exists():
            add(name, (ROOT / source).read_text(encoding="utf-8"))
    for module in api_modules():
        add(_api_page(module), "\n".join(_api(module)))
    for path in sorted(DOCS.glob("notebooks/*.ipynb")):
        name = path.relative_to(DOCS).as_posix()
        files.remove(files.src_uris[name])
        add(name.replace(".ipynb", ".md"), "\n\n".join(notebook(path)))
    add("images/icon.svg", (ROOT / "plugins/crvnn_explorer/static/icon.svg").read_bytes())
    add("site/style.css", _style())
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links lead to pages of the site; of what only the repository has, the name is left."""
    here = page.file.src_uri
    if here == "index.md":
        page.meta["hide"] = ["navigation"]  # its own lists are that
    base = ROOT if here in COMMUNITY.values() else (DOCS / here).parent

    def led(found: re.Match[str]) -> str:
        text, target = found.groups()
        path, mark, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return found[0]
        place = (base / path).resolve()
        if place.is_relative_to(DOCS) and not place.is_dir():
            name = place.relative_to(DOCS).as_posix().replace(".ipynb", ".md")
        elif place.parent == ROOT and place.name in COMMUNITY:
            name = COMMUNITY[place.name]
        else:
            return text[1:-1]
        up = "../" * here.count("/")
        return f"{text}({up}{name}{mark}{anchor})"

    # Pygments takes lines of "console" without a prompt for output, and greys them.
    return re.sub(r"^```console$", "```bash", _LINK.sub(led, markdown), flags=re.MULTILINE)


# The API reference.


def api_modules() -> dict[str, tuple[str, str]]:
    """The modules that have a page, with titles and first sentences; ``crvnn`` itself comes first."""
    own = {"crvnn": ("crvnn", "What most programs need.")} if (ROOT / "crvnn").exists() else {}
    return own | API


def _api_page(module: str) -> str:
    return f"api/{module.replace('crvnn_core.', '')}.md"


def _api(module: str) -> Iterator[str]:
    title, about = api_modules()[module]
    yield f"# {title}\n\n{about}\n"
    names = public_names("crvnn" if module == "crvnn" else "crvnn_core")
    own = {name: home for name, home in names.items() if page_of(home) == module}
    yield from (f"::: {home}.{name}\n" for name, home in own.items())
    if module == "crvnn":
        yield "::: crvnn.sklearn.CRvNNClassifier\n"
        yield "## More\n\n`crvnn` also has these names, which are described on other pages:\n"
        yield from (f"- [`{name}`][{names[name]}.{name}]" for name in names if name not in own)


def public_names(package: str) -> dict[str, str]:
    """The names that a package imports for its users, and the modules that they come from."""
    found = {}
    for node in ast.walk(ast.parse((ROOT / package / "__init__.pyi").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: node.module for alias in node.names}
    return {name: found[name] for name in importlib.import_module(package).__all__}


def page_of(module: str) -> str:
    """The module on whose page the names of a module are; what has no page of its own is for plug-ins."""
    return next((page for page in api_modules() if f"{module}.".startswith(f"{page}.")), "crvnn_core.host")


# Notebooks.


def notebook(path: Path) -> Iterator[str]:
    """A notebook as Markdown."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
        elif cell["cell_type"] == "code" and source.strip():
            yield f"```python\n{source}\n```"
            yield from filter(None, map(_output, cell["outputs"]))


def _output(output: dict[str, Any]) -> str:
    """What a cell showed, in the richest form that needs no script."""
    data = {kind: "".join(content) for kind, content in output.get("data", {}).items()}
    if "image/svg+xml" in data or "text/html" in data:
        content = re.sub(r"\n\s*\n", "\n", data.get("image/svg+xml") or data["text/html"])
        return f'<div class="output">{content}</div>'
    if "image/png" in data:
        return (
            f'<div class="output"><img alt="" src="data:image/png;base64,{data["image/png"].strip()}"></div>'
        )
    text = "".join(output.get("text", "")) or data.get("text/plain", "")
    return f'<div class="output"><pre>{html.escape(text)}</pre></div>' if text.strip() else ""


def _style() -> str:
    """The colours of the explorer and the report."""
    from crvnn_core.display.palette import COLOURS

    def colours(theme: int) -> str:
        accent, surface, ground = (COLOURS[name][theme] for name in ("accent", "surface", "ground"))
        bar = COLOURS["ink"][0] if theme == 0 else surface
        return (
            f"--md-primary-fg-color: {bar}; --md-primary-bg-color: #ffffff; --md-accent-fg-color: {accent}; "
            f"--md-typeset-a-color: {accent};" + (f" --md-default-bg-color: {ground};" if theme else "")
        )

    return (
        f'[data-md-color-scheme="default"] {{ {colours(0)} }}\n[data-md-color-scheme="slate"] {{ {colours(1)} }}\n'
        ".md-typeset h1 { color: inherit; font-weight: 600; letter-spacing: -.015em; margin-bottom: .6em; }\n"
        ".md-typeset h2 { font-weight: 500; }\n"
        ".md-typeset img { border-radius: 6px; }\n"
        ".output { margin: 0 0 1em; padding-left: 12px; border-left: 3px solid var(--md-default-fg-color--lightest); "
        "overflow-x: auto; }\n"
        ".md-typeset table:not([class]) { font-size: .68rem; }\n"
        # Nobody copies a signature, and on a phone the button would cover it.
        ".doc-signature .md-code__nav, .doc-signature .md-clipboard { display: none; }\n"
    )
