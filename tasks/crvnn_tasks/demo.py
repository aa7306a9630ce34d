"""``crvnn demo``: from nothing to a prediction in about a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crvnn_core import Assembly

_SETTINGS = (
    "task.max_tokens=9",
    "task.rows=19200",
    "task.held_out=500",
    "model.width=64",
    "training.batch=64",
    "training.epochs=0",
    "training.threads=1",  # for matrices as small as these, more threads only wait for each other
    "training.accelerator=cpu",
    "training.optimizer.learning_rate=0.003",
)
_QUESTIONS = ("[MAX 2 9 4 ]", "[MIN 8 3 7 ]", "[SM 7 5 ]", "[MAX 1 [MIN 4 6 ] 2 ]")


@click.command("demo")
@click.option("--steps", default=300, show_default=True, type=click.IntRange(min=1), help="Training steps.")
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of everything random."
)
def demo(steps: int, seed: int) -> None:
    """Assemble the paper's model, train it on tiny ListOps, and let it answer.

    It takes about a minute on two cores, and shows every part at work rather than a good model.

    \b
    Example:
      crvnn demo --steps 100
    """
    from crvnn_core import assemble, create_plugin_manager, read_catalog, read_spec, train

    catalog = read_catalog(create_plugin_manager())
    sets = [*_SETTINGS, f"seed={seed}", f"training.steps={steps}"]
    click.echo("1. Assembling the paper's model for ListOps expressions of at most 9 tokens ...")
    assembly = assemble(read_spec(catalog, preset="paper", sets=sets), catalog)
    size = sum(parameter.numel() for parameter in assembly.model.parameters())
    click.echo(f"   {size:,} parameters, from {', '.join(_described(assembly))}.")
    click.echo(f"2. Training for {steps} steps of {assembly.spec.training.batch} expressions ...")
    outcome = train(assembly, evaluate_splits=["dev"])
    click.echo("3. Asking it about expressions that it has never seen ...")
    score = outcome.results["dev"].total
    click.echo(f"   {score.accuracy:.0%} of {score.examples} held-out expressions right (chance is 10%).")
    _answer(assembly, _QUESTIONS)
    click.echo(
        "\nThis was a glimpse; a model that was trained for two hours comes with the package. Next:\n"
        "  crvnn predict listops '[MAX 1 [SM 7 5 ] 2 ]' --trees   asks it\n"
        "  crvnn explore listops                                  shows in a browser what it does\n"
        "  crvnn train tasks/specs/from-file.toml                 trains on a CSV file like one of yours\n"
        "  crvnn assemble --help                                  tells how to compose a variant"
    )


def _described(assembly: Assembly) -> list[str]:
    return [f"{slot} '{offer.component.name}'" for slot, offer in assembly.offers.items() if slot != "task"]


def _answer(assembly: Assembly, questions: Sequence[str]) -> None:
    from crvnn_tasks.listops.task import evaluate

    sequences = [assembly.task.tokenize(question) for question in questions]
    answers = assembly.model.probabilities(sequences)
    for question, sequence, chances in zip(questions, sequences, answers, strict=True):
        guess = int(chances.argmax())
        truth = evaluate(sequence)
        verdict = "right" if guess == truth else f"wrong: it is {truth}"
        click.echo(
            f"   {question:<24} = {assembly.task.classes[guess]}   sure to {chances.max():.0%}, {verdict}"
        )
