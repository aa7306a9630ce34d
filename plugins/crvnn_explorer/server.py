"""The explorer's web server. All input is text and nothing else; what a user did wrong is a 400 that says so."""

from __future__ import annotations

import json
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crvnn_core import CrvnnError
from crvnn_core.display.palette import css_variables
from crvnn_explorer.models import Explorer
from crvnn_explorer.request import Query, read_json

STATIC = Path(__file__).parent / "static"
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def hosts_of(host: str, bound: str, more: Iterable[str] = ()) -> list[str]:
    """The names under which a server is reached: a page elsewhere may give its own name the address of this machine.

    On all addresses of the machine that is any name, unless the user says which.

    :param host: as the user gave it.
    :param bound: the address that it became.
    :param more: names that the user allows besides.
    """
    if ip_address(bound.partition("%")[0]).is_unspecified:
        return [*LOOPBACK, socket.gethostname(), *more] if more else ["*"]
    return [*LOOPBACK, host, f"[{host}]", *more]


def server_of(app: ASGIApp) -> uvicorn.Server:
    """A server. It logs nothing: whoever sends malformed requests fills no terminal, and ``_answered`` prints bugs."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            ws="none",
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
    )


class SameOrigin:
    """Middleware that refuses what pages of other origins ask for, and adds headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        app = self.app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            if origin is not None and origin.partition("://")[2] != headers.get("host"):
                app = _refusal(f"pages of {origin} may not ask here", 403)
        await app(scope, receive, send_with_headers)


def create_app(explorer: Explorer, hosts: Iterable[str] = LOOPBACK) -> Starlette:
    """The page and what it asks for.

    :param hosts: by which the server may be addressed.
    """

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def palette(request: Request) -> Response:
        return Response(css_variables(), media_type="text/css")

    async def models(request: Request) -> Response:
        return await _answered(lambda: explorer.description)

    async def example(request: Request) -> Response:
        name, number = request.query_params.get("model", ""), request.path_params["number"]
        return await _answered(lambda: explorer.example(name, number))

    async def inspect(request: Request) -> Response:
        body = await request.body()
        return await _answered(lambda: explorer.inspect(Query.read(read_json(body))))

    async def neighbours(request: Request) -> Response:
        body = await request.body()
        sequence, step = request.path_params["sequence"], request.path_params["step"]
        return await _answered(lambda: explorer.neighbours(Query.read(read_json(body)), sequence, step))

    routes = [
        Route("/", page),
        Route("/api/models", models),
        Route("/api/example/{number:int}", example),
        Route("/api/inspect", inspect, methods=["POST"]),
        Route("/api/neighbours/{sequence:int}/{step:int}", neighbours, methods=["POST"]),
        Route("/static/palette.css", palette),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    middleware = [
        Middleware(SameOrigin),
        Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
    ]
    return Starlette(routes=routes, middleware=middleware)


async def _answered(work: Callable[[], dict[str, Any]]) -> Response:
    """The result of some work as JSON, and errors likewise. Threads work: a short text waits for no long one."""
    try:
        return _json(await run_in_threadpool(work))
    except CrvnnError as error:
        return _refusal(str(error).replace("--set model.", ""), 400)
    except (Exception, SystemExit):  # a bug, of ours or of a plug-in: the page says so and stays
        traceback.print_exc(file=sys.stderr)
        return _refusal("something went wrong in crvnn itself; its terminal shows the traceback", 500)


def _refusal(message: str, status: int) -> Response:
    """An error that the page shows."""
    return _json({"error": message}, status)


def _json(data: dict[str, Any], status: int = 200) -> Response:
    content = json.dumps(
        data, allow_nan=False, separators=(",", ":")
    )  # escapes lone surrogates, which UTF-8 lacks
    return Response(content, status, media_type="application/json")
