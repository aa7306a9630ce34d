"""``crvnn assemble``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crvnn_core.cli.session import (
    PATH,
    SPEC,
    Name,
    Session,
    json_option,
    pass_session,
    print_json,
    print_table,
    set_option,
)
from crvnn_core.host.slots import SLOT_BY_NAME

if TYPE_CHECKING:
    from crvnn_core.inference.dry_run import DryRun
    from crvnn_core.spec import RunSpec

F = TypeVar("F", bound=Callable[..., Any])


def spec_options(command: F) -> F:
    """Add the argument SPEC and the options that override its values."""
    options = [
        click.argument("spec", required=False, type=SPEC),
        click.option("--preset", type=Name("preset"), metavar="NAME", help="A named variant to start from."),
        *(
            click.option(f"--{slot.name}", type=Name(slot.name), metavar="NAME", help=slot.help)
            for slot in SLOT_BY_NAME.values()
            if not slot.for_training
        ),
        set_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command("assemble")
@spec_options
@click.option("--out", type=PATH, metavar="DIR", help="Write the resolved spec to DIR/spec.toml.")
@json_option
@pass_session
def assemble_command(
    session: Session,
    /,
    spec: Path | None,
    preset: str | None,
    sets: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **parts: str | None,
) -> None:
    """Build the model of a SPEC file, or of the defaults, and run one batch of its task's data through it and back.

    Shows the component of each slot, its parameters and multiply-adds, and how many steps the recursion took. Of a
    spec with stages every stage is built; the model and the batch are those of the last one.

    \b
    Examples:
      crvnn assemble --retriever log-space --cell lstm
      crvnn assemble my.toml --set model.width=128 --out runs/first
    """
    import torch

    from crvnn_core.errors import CrvnnError
    from crvnn_core.inference.dry_run import dry_run
    from crvnn_core.runs.directory import was_resolved
    from crvnn_core.spec import read_spec, stage_changes, write_spec
    from crvnn_core.spec.assembly import assemble

    torch.set_num_threads(1)  # the batch is so small that more threads only wait for each other
    named = {slot: name for slot, name in parts.items() if name is not None}
    resolved = read_spec(session.catalog, spec, preset=preset, parts=named, sets=sets)
    assembly = assemble(resolved, session.catalog)
    written = out / "spec.toml" if out is not None else None
    if written is not None and written.exists() and not was_resolved(written):
        raise CrvnnError(
            f"{written} was not written by crvnn, and would be lost; choose another directory for --out"
        )
    result = dry_run(assembly)
    if written is not None:
        write_spec(resolved, written, assembly.notes())
    if as_json:
        import attrs

        stages = {"stages": stage_changes(resolved)} if resolved.stages else {}
        print_json({**attrs.asdict(result), **stages, "spec": str(written) if written else None})
    else:
        _show(result)
        _show_stages(resolved)
        for remark in assembly.remarks:
            click.echo(remark)
        if written:
            click.echo(f"\nThe resolved spec is in {written}.")


def _show(result: DryRun) -> None:
    rows = [
        (
            row.slot,
            row.component,
            row.source,
            f"{row.parameters:,}",
            "" if row.multiply_adds is None else f"{row.multiply_adds:,.0f}",
        )
        for row in result.rows
    ]
    print_table(("slot", "component", "from", "parameters", "multiply-adds"), rows, right=(3, 4))
    click.echo(
        f"\n{result.parameters:,} parameters in all. A batch of {result.sequences} sequences of up to {result.longest} "
        f"tokens took {result.mean_steps:.1f} steps on average and {result.most_steps} at most;\n"
        f"loss {result.loss:.3f}, gradient norm {result.gradient_norm:.3f}, "
        f"{result.seconds:.2f} s forward and back.\n"
        f"Multiply-adds are per position (padding too) and step, at {result.longest} tokens: those of the code that "
        "runs here, skipped cells left out."
    )


def _show_stages(spec: RunSpec) -> None:
    from crvnn_core.spec import stage_summary

    if spec.stages:
        rows = [
            (str(number + 1), stage.name, stage_summary(spec, number))
            for number, stage in enumerate(spec.stages)
        ]
        click.echo()
        print_table(("stage", "name", "settings"), rows)
