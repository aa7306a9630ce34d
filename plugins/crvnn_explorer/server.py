"""The explorer's web server. All input is text and nothing else; what a user did wrong is a 400 that says so."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
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
#: Bytes of a request at most.
MOST_BYTES = 64 * 1024
#: Seconds at most until a request is answered, with those in which it waits for others.
MOST_SECONDS = 60
#: Connections at once; uvicorn answers others with 503.
MOST_CONNECTIONS = 128
#: Words of a short text at most. Longer ones are computed one by one, so that a short one never waits for them.
SHORT = 32
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
            limit_concurrency=MOST_CONNECTIONS,
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

    short, long = CapacityLimiter(2), CapacityLimiter(1)

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def palette(request: Request) -> Response:
        return Response(css_variables(), media_type="text/css")

    async def models(request: Request) -> Response:
        return await _answered(lambda: explorer.description, short)

    async def example(request: Request) -> Response:
        name, number = request.query_params.get("model", ""), request.path_params["number"]
        return await _answered(lambda: explorer.example(name, number), short)

    async def asked(request: Request, answer: Callable[[Query], dict[str, Any]]) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                return _refusal(f"the text is too long: at most {MOST_BYTES // 1024} kB are read", 413)
        try:
            query = Query.read(read_json(bytes(body)))
        except CrvnnError as error:
            return _refusal(str(error), 400)
        words = sum(len(text.split()) for text in query.texts)
        return await _answered(lambda: answer(query), short if words <= SHORT else long)

    async def inspect(request: Request) -> Response:
        return await asked(request, explorer.inspect)

    async def neighbours(request: Request) -> Response:
        sequence, step = request.path_params["sequence"], request.path_params["step"]
        return await asked(request, lambda query: explorer.neighbours(query, sequence, step))

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


async def _answered(work: Callable[[], dict[str, Any]], threads: CapacityLimiter) -> Response:
    """The result of some work in one of these threads as JSON, and errors likewise."""
    try:
        async with asyncio.timeout(MOST_SECONDS):
            return _json(await run_sync(work, limiter=threads, abandon_on_cancel=True))
    except TimeoutError:
        return _refusal(f"it has not been answered within {MOST_SECONDS} seconds; try again later", 503)
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
