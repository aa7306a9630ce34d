"""``crvnn demo``: assembles, trains and queries a small model in about a minute."""

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
    "training.threads=1",  # matrices this small gain nothing from more threads
    "training.accelerator=cpu",
    "training.optimizer.learning_rate=0.003",
)
_QUESTIONS = ("[MAX 2 9 4 ]", "[MIN 8 3 7 ]", "[SM 7 5 ]", "[MAX 1 [MIN 4 6 ] 2 ]")


@click.command("demo")
@click.option("--steps", default=300, show_default=True, type=click.IntRange(min=1), help="Training steps.")
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the random generators."
)
def demo(steps: int, seed: int) -> None:
    """Assemble the paper's model, train it on short ListOps expressions, and print its predictions.

    This takes about a minute on two cores; it shows the workflow, not the accuracy of a fully trained model.

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
    click.echo("3. Evaluating on held-out expressions ...")
    score = outcome.results["dev"].total
    click.echo(f"   {score.accuracy:.0%} accuracy on {score.examples} held-out expressions (chance is 10%).")
    _answer(assembly, _QUESTIONS)
    click.echo(
        "\nA model that was trained for two hours comes with the package. Next:\n"
        "  crvnn predict listops '[MAX 1 [SM 7 5 ] 2 ]' --trees   its prediction and tree for an expression\n"
        "  crvnn explore listops                                  every step of the recursion, in a browser\n"
        "  crvnn train from-file                                  train on a CSV file\n"
        "  crvnn assemble --help                                  compose a variant from other parts"
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
        verdict = "correct" if guess == truth else f"wrong: the answer is {truth}"
        click.echo(
            f"   {question:<24} = {assembly.task.classes[guess]}   probability {chances.max():.0%}, {verdict}"
        )
