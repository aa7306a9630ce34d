"""``crvnn demo``: lets a small model find its trees in a minute or two, tries it and the shipped one, writes a page."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crvnn_core import Prediction
    from crvnn_core.spec import RunSpec

_SPEC = "listops-demo"
_QUESTIONS = ("[MAX 2 9 4 ]", "[MIN 8 3 7 ]", "[SM 7 5 ]", "[MAX 1 [MIN 4 6 ] 2 ]")
_SHIPPED = "listops"


@click.command("demo")
@click.option(
    "--steps", type=click.IntRange(min=1), help="Training steps of each stage, in place of the spec's."
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the random generators."
)
@click.option(
    "--out",
    default="runs/demo",
    show_default=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the run and the page are written; an earlier demo there is replaced.",
)
@click.pass_context
def demo(ctx: click.Context, steps: int | None, seed: int, out: Path) -> None:
    """Let a small model find the trees of short ListOps expressions, predict with it, and draw its trees.

    This takes a minute or two. It learns from labels alone, in three stages: the cell, then soft decisions, then
    stretched ones. For the accuracy of a full training, the model that comes with the package predicts as well.

    \b
    Example:
      crvnn demo --steps 100
    """
    from crvnn_core import create_plugin_manager, read_catalog
    from crvnn_core.inference.trained import load
    from crvnn_core.spec import read_spec
    from crvnn_core.spec.assembly import assemble
    from crvnn_core.training.trainer import train

    catalog = read_catalog(create_plugin_manager())
    sets = [f"seed={seed}"]
    if steps is not None:
        sets += [f"stages.{number}.training.steps={steps}" for number in (1, 2, 3)]
    click.echo("1. Assembling a model for ListOps expressions of at most 30 tokens ...")
    assembly = assemble(read_spec(catalog, _SPEC, sets=sets), catalog)
    size = sum(parameter.numel() for parameter in assembly.model.parameters())
    offers = assembly.offers.items()
    parts = ", ".join(f"{slot} '{offer.component.name}'" for slot, offer in offers if slot != "task")
    click.echo(f"   {size:,} parameters, from {parts} (of the last stage).")
    _remove_earlier(out, assembly.spec)
    click.echo(
        "2. Training on labels alone: the cell, then soft decisions, then stretched ones, which become 0 or 1 ..."
    )
    click.echo(
        "   (constituents, f1: nested lists found, agreement with gold trees; sharpness: 1 where decisions are 0 or 1)"
    )
    train(assembly, out, evaluate_splits=["dev"])
    _show_stages(out, assembly.spec)
    _show(load(out, catalog).predict(_QUESTIONS))
    click.echo(
        "3. Asking the model that comes with the package, which found its trees in the same way, in 11 minutes ..."
    )
    answers = load(_SHIPPED, catalog).predict(_QUESTIONS)
    _show(answers)
    if (tree := answers[-1].tree) is not None:
        drawn = "\n".join(f"     {line}".rstrip() for line in tree.to("terminal").splitlines())
        click.echo(f"   The tree of the last one:\n\n{drawn}\n")
    _report(ctx, out)
    click.echo(
        "\nNext:\n"
        "  crvnn predict listops '[MAX 1 [SM 7 5 ] 2 ]' --trees   a prediction, and its tree\n"
        "  crvnn explore listops                                  every step of the recursion, in a browser\n"
        "  crvnn train from-file                                  train on a CSV file\n"
        "  crvnn assemble --help                                  compose a variant from other parts"
    )


def _remove_earlier(out: Path, spec: RunSpec) -> None:
    """Remove an earlier demo, which can be made again; any other run is left to be refused."""
    from crvnn_core.spec import spec_dict

    path, wanted = out / "spec.toml", spec_dict(spec)
    if path.exists():
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        if all(found.get(key) == wanted[key] for key in ("task", "model")):
            shutil.rmtree(out)


def _show_stages(out: Path, spec: RunSpec) -> None:
    """The accuracy on held-out expressions at the end of each stage, and the lists that are found."""
    from crvnn_core.runs.records import read_metrics

    ends, last = {}, 0
    for stage in spec.stages:
        last += stage.training.steps
        ends[last] = stage.name
    for record in read_metrics(out / "metrics.jsonl"):
        if record["kind"] == "dev" and record["step"] in ends:
            lists = (
                f", {record['constituents']:.0%} of nested lists found" if "constituents" in record else ""
            )
            click.echo(
                f"   {ends[record['step']]:<9} {record['accuracy']:>4.0%} of held-out expressions{lists}"
            )


def _show(answers: Sequence[Prediction]) -> None:
    from crvnn_tasks.listops.task import evaluate

    for answer in answers:
        truth = str(evaluate(answer.tokens[0]))
        verdict = "correct" if answer.label == truth else f"wrong: the answer is {truth}"
        chance = answer.probabilities[answer.label]
        click.echo(f"   {answer.text:<24} = {answer.label}   probability {chance:.0%}, {verdict}")


def _report(ctx: click.Context, out: Path) -> None:
    """Write a page about the trained and the shipped model, if the command for it is installed."""
    root = ctx.find_root().command
    command = root.get_command(ctx, "report") if isinstance(root, click.Group) else None
    if command is None:
        return
    click.echo("4. Writing a page about both models ...")
    asked = {"runs": (str(out), _SHIPPED), "examples": 100, "texts": (_QUESTIONS[-1],)}
    ctx.invoke(command, **asked, out=out / "report.html", sets=("task.test_max_tokens=30",))
