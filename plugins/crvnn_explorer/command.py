"""``crvnn explore``. Nothing here imports torch or starlette until the command runs."""

from __future__ import annotations

import os
import socket
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING

import click

from crvnn_core.cli.session import RUN, Session, announce_seed, pass_session
from crvnn_core.errors import CrvnnError

if TYPE_CHECKING:
    from crvnn_explorer.models import Explorer


@click.command("explore")
@click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Of the page; 0 for any that is free.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. The default can be reached from this machine only.",
)
@click.option(
    "--allowed-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Another host name in the page's address, as of a proxy; may be repeated. Names other than these, "
    "--host and those of loopback are refused; with --host 0.0.0.0 only if this is given.",
)
@click.option("--open/--no-open", "show", default=True, show_default=True, help="Open the page in a browser.")
@pass_session
def explore(
    session: Session, runs: tuple[str, ...], port: int, host: str, names: tuple[str, ...], show: bool
) -> None:
    """Inspect the models in the directories RUN (or installed ones, by name) on a page in your browser.

    Type a text and see its label, its tree, and every step of the recursion; put two models side by side, or one
    under two retrievers or decisions; change a temperature and see the tree change; save the picture.

    \b
    Examples:
      crvnn explore listops
      crvnn explore listops listops-guided --port 8080
      crvnn explore runs/first --no-open
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise CrvnnError(
            f"the explorer needs the package '{error.name}': pip install 'crvnn[explore]' installs it"
        ) from None
    with listening(host, port) as sock:  # first: a port in use is reported early
        from crvnn_explorer.models import Explorer

        explorer = Explorer.load(dict.fromkeys(runs), session.catalog)
        for run, trained in explorer.runs.items():
            announce_seed(run, trained)
        _serve(explorer, sock, host, names, show)


def listening(host: str, port: int) -> socket.socket:
    """A socket at this address; if it cannot be had, an error that names a free port."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise CrvnnError(f"--host {host}: there is no such address ({error})") from None
    # asyncio switches Nagle's delay off, of 40 ms an answer, only where it is told that this is TCP.
    sock = socket.socket(family, kind, protocol)
    if os.name == "posix":  # elsewhere this would let two share a port
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        sock.listen()  # only now does another listener show
    except OSError as error:
        sock.close()
        if port:
            with listening(host, 0) as other:
                free = other.getsockname()[1]
            raise CrvnnError(
                f"port {port} cannot be used ({error.strerror}); {free} is free: --port {free}"
            ) from None
        raise CrvnnError(f"{host} cannot be used: {error.strerror}") from None
    return sock


def _serve(explorer: Explorer, sock: socket.socket, host: str, names: tuple[str, ...], show: bool) -> None:
    import torch

    from crvnn_explorer.server import create_app, hosts_of, server_of

    torch.set_num_threads(1)  # texts are short: more threads would gain little, and wait on busy cores
    bound, port = sock.getsockname()[:2]
    local = ip_address(bound.partition("%")[0]).is_loopback
    address = page_address(host, port)
    click.echo(f"Exploring {', '.join(explorer.runs)} at {address}  (Ctrl+C ends it)")
    if not local:
        click.echo(
            f"crvnn: warning: {host} may be reached from other machines, and whoever reaches it can ask the models.",
            err=True,
        )
    if show and _has_display():
        import webbrowser

        webbrowser.open(address)  # the socket listens already: the browser waits for the first answer
    app = create_app(explorer, hosts_of(host, bound, names))
    try:
        server_of(app).run(sockets=[sock])
    except KeyboardInterrupt:  # uvicorn passes it on after it has ended
        click.echo("")


def page_address(host: str, port: int) -> str:
    """Where this machine's browser finds the page; a server on all addresses is on loopback too."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


def _has_display() -> bool:
    """Whether a browser has somewhere to show a page: one in the terminal would stand in the way."""
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True
