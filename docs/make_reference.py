"""Write docs/reference/ anew, from the code and nothing else. ``make docs`` runs this."""

from __future__ import annotations

import importlib
import inspect
import re
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import attrs
import click
import tomli_w

import crvnn
import crvnn.sklearn as crvnn_sklearn
import crvnn_core
from crvnn_core import SLOTS, create_plugin_manager, read_catalog
from crvnn_core.annotations import described
from crvnn_core.cli import main as command_line
from crvnn_core.cli.session import Session
from crvnn_core.host import hooks
from crvnn_core.host.slots import SLOT_BY_NAME, SLOT_BY_PATH
from crvnn_core.spec.description import describe
from crvnn_core.spec.schema import ModelSpec, RunSpec, TrainingSpec
from crvnn_core.spec.stages import SHARED_SETTINGS
from crvnn_core.testing import CHECKS, promise

HERE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by `make docs` from the code; change the code, not this file. -->"

# Only what comes with crvnn, whatever else is installed here.
PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PLUGINS = [importlib.import_module(module) for module in PROJECT["entry-points"]["crvnn"].values()]
HOST = create_plugin_manager(*PLUGINS, entry_points=False)
CATALOG = read_catalog(HOST)


def pages() -> dict[str, str]:
    """Every reference page by its file name."""
    parts = {
        "hooks.md": _hooks,
        "spec.md": _spec,
        "commands.md": _commands,
        "contracts.md": _contracts,
        "components.md": _components,
        "python.md": _python,
    }
    return {name: "\n\n".join([NOTE, *write()]) + "\n" for name, write in parts.items()}


def how_to(slot: str) -> str:
    """The name of the page about writing a component for a slot."""
    return f"write-{_one(slot).replace(' ', '-')}.md"


def _one(slot: str) -> str:
    return f"{'an' if slot[0] in 'aeiou' else 'a'} {slot}"


# Hooks, contracts and components.


def _hooks() -> Iterator[str]:
    yield "# Hooks"
    yield (
        "A plug-in is a module (or any object) with functions that bear these names and are marked with "
        "`crvnn_core.hookimpl`. A package names the module in the entry-point group `crvnn`; "
        "`crvnn --plugin FILE` loads a single file. Hooks are called through "
        "[pluggy](https://pluggy.readthedocs.io), so `hookimpl` takes pluggy's options: "
        "[wrap a hook](../how-to/wrap-a-hook.md) shows how to change what other plug-ins offer. "
        "They are called once for a command, and never inside the recursion. No two plug-ins may offer the same name "
        "in a hook."
    )
    slots = {slot.hook: slot.name for slot in SLOT_BY_NAME.values()}
    for name in hook_names():
        hook = getattr(hooks, name)
        yield f"## {name}"
        yield _code(f"{name}{_signature(hook)}", "text")
        text, _, returned = (inspect.getdoc(hook) or "").partition(":return:")
        yield _markdown(text)
        yield f"Returns {_markdown(returned)}"
        if name in slots:
            yield f'Contract: [`crvnn_core.testing.CHECKS["{slots[name]}"]`](contracts.md#{slots[name]}).'
            page = how_to(slots[name])
        else:
            what = re.sub("[ _]", "-", _one(name.removeprefix("crvnn_").removesuffix("s")))
            pages = [f"add-{what}.md", f"write-{what}.md", "offer-specs-and-models.md"]
            page = next(page for page in pages if (HERE.parent / "how-to" / page).exists())
        yield f"How to: [{page}](../how-to/{page})."


def hook_names() -> list[str]:
    """Every hook, in the order of the source."""
    return [name for name in vars(hooks) if name.startswith("crvnn_")]


def _contracts() -> Iterator[str]:
    yield "# Contracts"
    yield (
        "What every component of a slot promises. `crvnn check SLOT NAME` runs these, and so does a test "
        "that is parametrised over the `CHECKS` of a slot in `crvnn_core.testing`."
    )
    for slot in SLOTS:
        yield f"## {slot}"
        yield f'`crvnn_core.testing.CHECKS["{slot}"]`'
        yield _table(
            ("check", "promise"), [(f"`{check.__name__}`", promise(check)) for check in CHECKS[slot]]
        )


def _components() -> Iterator[str]:
    yield "# Components"
    yield (
        "Everything that comes with crvnn. `crvnn list` shows what is installed where you are, and "
        "`crvnn list SLOT NAME` describes a plug-in's component like this page."
    )
    for slot in SLOTS:
        yield f"## {slot}"
        for name in CATALOG.components[slot]:
            yield from _component(describe(CATALOG, slot, name))


def _component(facts: dict[str, Any]) -> Iterator[str]:
    yield f"### {facts['slot']} `{facts['name']}`"
    yield f"{facts['summary'][:1].upper()}{facts['summary'][1:]}."
    yield f"Built by `{facts['build']}`. {_markdown(facts['text'])}"
    if facts["parameters"]:
        yield _table(
            ("parameter", "kind", "default", "what it does"),
            [
                (f"`{p['name']}`", p["kind"], f"`{p['default']}`", _markdown(p["text"]))
                for p in facts["parameters"]
            ],
        )
    else:
        yield "It has no parameters."
    if facts["given"]:
        yield f"Filled in by crvnn: {', '.join(f'`{name}`' for name in facts['given'])}."


# The spec.


def _spec() -> Iterator[str]:
    yield "# The spec"
    yield from _layers()
    for table, kind in (("", RunSpec), ("model", ModelSpec), ("training", TrainingSpec)):
        yield f"## `[{table}]`" if table else "## Top level"
        yield _markdown(inspect.getdoc(kind) or "")
        rows = [_key(table, attribute, _comments(kind)) for attribute in attrs.fields(kind)]
        yield _table(("key", "kind", "default", "what it is"), [*([] if table else _EXTRA), *rows])
    yield from _stages()
    yield "## Presets"
    yield f"Each sets parts of `[model]`. Without a `preset` a spec starts from `{CATALOG.default_preset}`."
    for name, (preset, _) in CATALOG.presets.items():
        yield f"### `{name}`"
        yield f"{preset.summary[:1].upper()}{preset.summary[1:]}."
        yield _code(tomli_w.dumps({"model": dict(preset.model)}), "toml")


def _stages() -> Iterator[str]:
    yield "## `[[stages]]`"
    yield (
        "Stages of training, one after the other. Each is the whole spec with the tables of the stage merged over it; "
        "[how to train](../how-to/train.md#stages) says what carries over."
    )
    rows = [
        ("`name`", "a string", "Printed when the stage begins."),
        ("`task`", "a table", "Settings of the task, or another task with the same tokens and classes."),
        (
            "`model`",
            "a table",
            "Settings and components of the model that keep its weights' names and shapes.",
        ),
        ("`training`", "a table", "Settings of the training."),
    ]
    yield _table(("key", "kind", "what it is"), rows)
    shared = ", ".join(f"`{'.'.join(path)}`" for path in SHARED_SETTINGS)
    yield f"All stages share `seed`, {shared}."
    yield (
        "A list of stages replaces the list below. A table with the number of a stage, from 1, changes that stage: "
        "`[stages.2.task]` in a file, `--set stages.2.task.max_tokens=50` on the command line. Any other setting on "
        "the command line holds for every stage, also for those that set it themselves."
    )


_EXTRA = [
    ("`preset`", "the name of a preset", f"`{CATALOG.default_preset}`", "The variant to start from."),
    (
        "`extends`",
        "a path, from this file's directory, or a name",
        "",
        "Another spec that this one overrides.",
    ),
]


def _layers() -> Iterator[str]:
    yield (
        "A spec is a TOML file. `crvnn list specs` lists those that come with a package and are used by name; a file "
        "of that name in the working directory takes precedence, with a warning."
    )
    yield "It is merged over others; the upper layer wins, key by key. From the bottom up:"
    yield "\n".join(
        [
            "1. the defaults in the tables below;",
            "2. the preset: that of `--preset`, or else of the topmost file that names one;",
            "3. the files that the file `extends`, the farthest first;",
            "4. the file itself;",
            "5. options that name a component, such as `--cell lstm`;",
            "6. each `--set key.path=value`, in the order given. The value is read as TOML, "
            "and as a string where it is not TOML.",
        ]
    )
    yield (
        'A component is named by a string (`cell = "lstm"`) or by a table with its `name` and its parameters '
        '(`[model.cell]`, `name = "gated"`, `hidden = 256`). A table without a `name` changes parameters of '
        "the component of the layers below. Naming another component drops the parameters "
        "of the old one. A list, such as `training.observers`, replaces the list below."
    )
    yield (
        "A relative path starts from the directory of the file that it is written in; in `--set`, from the working "
        "directory. [Paths in a spec](../how-to/offer-specs-and-models.md#paths-in-a-spec) says more."
    )
    yield (
        "Numbers, strings and booleans are never converted into each other, save that an integer may stand for a "
        "number. "
        "A key that does not exist, a component that is not installed and a value out of its limits are "
        "all reported, together, with file and line."
    )


def spec_keys() -> list[str]:
    """Every key of a spec, dotted."""
    tables: dict[str, type] = {"": RunSpec, "model.": ModelSpec, "training.": TrainingSpec}
    keys = [f"{table}{field.name}" for table, kind in tables.items() for field in attrs.fields(kind)]
    return ["preset", "extends", *keys]


def _key(table: str, attribute: attrs.Attribute[Any], comments: dict[str, str]) -> tuple[str, ...]:
    path = (table, attribute.name) if table else (attribute.name,)
    explained = comments.get(attribute.name, "")
    if path in SLOT_BY_PATH:
        slot = SLOT_BY_PATH[path]
        explained, names = slot.help, ", ".join(f'"{name}"' for name in CATALOG.defaults(slot.name))
        if slot.many:
            kind, default = f"a list of {slot.plural}", f"`[{names}]`"
        else:
            kind, default = _one(slot.name), f"`{names}`" if names else "the preset's"
    elif path == ("stages",):
        kind, default = "a list of tables, [`[[stages]]`](#stages)", ""
    elif not attrs.has(attribute.type):
        kind, default = described(attribute.type), f"`{attribute.default}`"
    else:
        kind, default = f"a table, [`[{attribute.name}]`](#{attribute.name})", ""
    return f"`{'.'.join(path)}`", kind, default, explained


def _comments(kind: type) -> dict[str, str]:
    """The ``#:`` comment that stands above each field of a class."""
    found: dict[str, str] = {}
    waiting: list[str] = []
    for token in tokenize.generate_tokens(StringIO(inspect.getsource(kind)).readline):
        if token.type == tokenize.COMMENT and token.string.startswith("#:"):
            waiting.append(token.string[2:].strip())
        elif token.type == tokenize.NAME and waiting:
            found[token.string], waiting = " ".join(waiting), []
    return found


# Commands.


def _commands() -> Iterator[str]:
    yield "# Commands"
    for path, command, ctx in commands():
        yield f"## {path}"
        yield _code(" ".join([path, *command.collect_usage_pieces(ctx)]), "text")
        yield from _help(command.help or "")
        command._help_option = (
            None  # click keeps the one of the first context that asked: of another test, say
        )
        rows = [
            _option(parameter) for parameter in command.get_params(ctx) if isinstance(parameter, click.Option)
        ]
        yield _table(("option", "value", "default", "what it does"), rows)
    yield "## Exit codes"
    yield (
        "0 if all went well; 1 if `crvnn check` found a broken promise; 2 if the user has to correct something, "
        "which the message names. `CRVNN_TRACEBACK=1` in the environment shows the traceback "
        "as well."
    )


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command with the words that call it, the group itself first."""
    session = Session()
    session.host = HOST  # type: ignore[misc]
    ctx = click.Context(command_line, info_name="crvnn", obj=session, **command_line.context_settings)
    yield from _walk("crvnn", command_line, ctx)


def _walk(
    path: str, command: click.Command, ctx: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield path, command, ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None, f"'{path} {name}' is listed but does not exist"
            yield from _walk(f"{path} {name}", inner, click.Context(inner, info_name=name, parent=ctx))


def _help(text: str) -> Iterator[str]:
    """Paragraphs, with those behind a line of ``\\b`` as they stand."""
    for paragraph in inspect.cleandoc(text).split("\f")[0].strip().split("\n\n"):
        if paragraph.startswith("\b"):
            title, _, lines = paragraph[1:].strip("\n").partition("\n")
            yield title
            yield _code(inspect.cleandoc("\n" + lines), "text")
        else:
            yield " ".join(paragraph.split())


def _option(option: click.Option) -> tuple[str, ...]:
    facts = option.to_info_dict()
    names = ", ".join(f"`{name}`" for name in [*facts["opts"], *facts["secondary_opts"]])
    plain = facts["is_flag"] or isinstance(facts["default"], (type(None), tuple, list))
    default = "" if plain or callable(facts["default"]) else f"`{facts['default']}`"
    return names, "" if facts["is_flag"] else _value(option, facts), default, _markdown(option.help or "")


def _value(option: click.Option, facts: dict[str, Any]) -> str:
    kind = facts["type"]
    if "choices" in kind:
        return " or ".join(f"`{choice}`" for choice in kind["choices"])
    ends = [(">=", kind.get("min")), ("<=", kind.get("max"))]
    limits = " and ".join(f"{sign} {end}" for sign, end in ends if end is not None)
    name = option.metavar or option.type.name.upper().removesuffix(" RANGE")
    return f"`{name}` {limits}".strip()


# The Python names.


def _python() -> Iterator[str]:
    yield "# Python"
    yield (
        "`crvnn` is for programs and notebooks ([how to use it](../how-to/use-from-python.md)), `crvnn.sklearn` for "
        "scikit-learn, `crvnn_core` for plug-ins."
    )
    yield "## crvnn"
    yield from _names(crvnn, crvnn.__all__)
    yield from _names(crvnn_sklearn, ["CRvNNClassifier"])
    yield "## crvnn_core"
    yield from _names(crvnn_core, crvnn_core.__all__)


def _names(package: ModuleType, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        thing = getattr(package, name)
        yield f"### {name}"
        if inspect.isclass(thing):
            yield from _class(name, thing)
        elif inspect.isfunction(thing):
            yield _code(f"{name}{_signature(thing)}", "text")
            yield _first_line(thing)
        elif name == "hookimpl":
            yield _code("@hookimpl", "text")
            yield "Marks a function of a plug-in as the implementation of the hook whose name it bears."
        else:
            yield _code(f"{name} = {thing!r}", "text")


def _class(name: str, kind: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in kind.__bases__ if base is not object)
    own = [c for c in kind.__mro__ if c.__module__.startswith("crvnn") and "__init__" in vars(c)]
    lines = [f"class {name}({bases})" if bases else f"class {name}"]
    yield _code("\n".join([*lines, *([f"{name}{_signature(kind)}"] if own else [])]), "text")
    yield _first_line(kind)
    rows = [*_attributes(kind), *_members(kind)]
    if rows:
        yield _table(("member", "what it is"), rows)


def _attributes(kind: type) -> Iterator[tuple[str, str]]:
    """Annotated names of a class that a comment explains, above them or behind them."""
    above = _comments(kind)
    for line in inspect.getsource(kind).splitlines():
        if match := re.match(r"    (\w+): ([^#]+?)(?: = [^#]+?)?(?:  # (.+))?$", line):
            name, annotation, behind = match.groups()
            if explained := above.get(name) or behind:
                yield f"`{name}: {annotation}`", _markdown(explained)


def _members(kind: type) -> Iterator[tuple[str, str]]:
    for key, member in vars(kind).items():
        if isinstance(member, (FunctionType, classmethod)) and not key.startswith("_"):
            yield f"`{key}{_signature(getattr(kind, key))}`", _inherited_line(kind, key)
        elif isinstance(member, property) and not key.startswith("_"):
            yield f"`{key}`", _first_line(member)


def _inherited_line(kind: type, key: str) -> str:
    """The first line about a method in our own classes; torch documents every ``forward``."""
    own = [vars(c)[key] for c in kind.__mro__ if key in vars(c) and c.__module__.startswith("crvnn")]
    return next((_first_line(member) for member in own if member.__doc__), "")


def _first_line(thing: object) -> str:
    return _markdown((inspect.getdoc(thing) or "").partition("\n")[0])


class _Raw(str):
    """A string whose ``repr`` has no quotes."""

    def __repr__(self) -> str:
        return str(self)


def _signature(thing: Any) -> str:
    """A signature whose annotations read as they were written."""
    signature = inspect.signature(thing)
    raw = [
        p.replace(annotation=_raw(p.annotation), default=_shown(p.default))
        for p in signature.parameters.values()
        if p.name != "self"
    ]
    returned = inspect.Signature.empty if inspect.isclass(thing) else _raw(signature.return_annotation)
    return str(signature.replace(parameters=raw, return_annotation=returned))


def _shown(default: Any) -> Any:
    return _Raw("...") if default is attrs.NOTHING else default  # made anew for each instance


def _raw(annotation: Any) -> Any:
    return _Raw(annotation) if isinstance(annotation, str) else annotation


# Markdown.


def _markdown(text: str) -> str:
    """A docstring's text as Markdown."""
    paragraphs = text.replace("``", "`").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _code(text: str, language: str) -> str:
    return f"```{language}\n{text.strip()}\n```"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write() -> None:
    """Put the pages in their directory, and nothing else."""
    HERE.mkdir(exist_ok=True)
    new = pages()
    for old in HERE.glob("*.md"):
        if old.name not in new:
            old.unlink()
    for name, text in new.items():
        (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
