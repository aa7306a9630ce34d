"""``crvnn native``."""

from __future__ import annotations

import click

from crvnn_core.cli.session import Session, json_option, pass_session, plugin_option, print_json


@click.command("native")
@click.option("--build", "wanted", is_flag=True, help="Compile them, unless they are there already.")
@json_option
@plugin_option
@pass_session
def native_command(session: Session, wanted: bool, as_json: bool) -> None:
    """Say whether the compiled kernels for CPUs are in use, or build them.

    They do the work of a step in C++, about twice as fast as torch's operations, and are compiled on your machine
    (under a minute; it takes a C++ compiler and no network), one library for each package that has any. Everything
    works without them. CRVNN_NATIVE=0 leaves them unused, CXX names the compiler, CRVNN_CACHE the directory where they
    are kept.

    \b
    Examples:
      crvnn native
      crvnn native --build
    """
    from crvnn_core.host.catalog import read_libraries
    from crvnn_core.kernels import allowed
    from crvnn_core.kernels.building import compiler

    libraries, name = read_libraries(session.host), compiler()
    missing = [library for library in libraries if library.load() is None]
    if wanted and missing:
        if name and not as_json:
            packages = " and ".join(library.package for library in missing)
            click.echo(f"Compiling the kernels of {packages} with {name}; this takes under a minute ...")
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor() as pool:  # each is a process of the compiler
            for library in pool.map(lambda library: (library.build(), library)[1], missing):
                library.load()
    if as_json:
        print_json(
            {
                "allowed": allowed(),
                "compiler": name,
                "libraries": [
                    {
                        "name": library.name,
                        "package": library.package,
                        "built": library.load() is not None,
                        "in_use": allowed() and library.load() is not None,
                        "path": str(library.path()),
                    }
                    for library in libraries
                ],
            }
        )
        return
    for library in libraries:
        if library.load() is None:
            with_what = f"with {name}" if name else "once there is a C++ compiler"
            click.echo(
                f"{library.package}: not built for this version of torch and this processor; torch does the work. "
                f"'crvnn native --build' builds it, {with_what}."
            )
        elif allowed():
            click.echo(f"{library.package}: in use ({library.path()})")
        else:
            click.echo(f"{library.package}: built but not in use, as CRVNN_NATIVE is 0 ({library.path()})")
