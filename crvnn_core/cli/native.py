"""``crvnn native``."""

from __future__ import annotations

import click

from crvnn_core.cli.session import json_option, print_json


@click.command("native")
@click.option("--build", "wanted", is_flag=True, help="Compile them, unless they are there already.")
@json_option
def native_command(wanted: bool, as_json: bool) -> None:
    """Say whether the kernels for CPUs are in use, or build them.

    They do the work of a step in C++, about twice as fast as torch's operations, and are compiled on your machine
    (half a minute; it takes a C++ compiler and no network). Everything works without them. CRVNN_NATIVE=0 leaves
    them unused, CXX names the compiler, CRVNN_CACHE the directory where they are kept.

    \b
    Examples:
      crvnn native
      crvnn native --build
    """
    from crvnn_core.kernels import allowed, kernels
    from crvnn_core.kernels.building import build, compiler, library_path

    path, name = library_path(), compiler()
    if wanted and kernels() is None:
        if name and not as_json:
            click.echo(f"Compiling the kernels with {name}; this takes half a minute ...")
        build()
        kernels.cache_clear()
    built = kernels() is not None
    in_use = built and allowed()
    if as_json:
        print_json({"built": built, "in_use": in_use, "path": str(path), "compiler": name})
    elif in_use:
        click.echo(f"Kernels are in use: {path}")
    elif built:
        click.echo(f"Kernels are built but not in use, as CRVNN_NATIVE is 0: {path}")
    else:
        with_what = f"with {name}" if name else "once there is a C++ compiler"
        click.echo(
            "There are no kernels for this version of torch and this processor; torch does the work. "
            f"'crvnn native --build' makes them, {with_what}."
        )
