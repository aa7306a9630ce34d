"""The explorer's web server. All input is text and nothing else; what a user did wrong is a 400 that says so."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crvnn_core import CrvnnError
from crvnn_core.palette import css_variables
from crvnn_explorer.models import Explorer
from crvnn_explorer.request import Query, read_json, whole_number

STATIC = Path(__file__).parent / "static"
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
#: Bytes of a request at most.
MOST_BYTES = 64 * 1024
#: Seconds at most until a request has come in.
MOST_SECONDS = 20

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


def create_app(explorer: Explorer, names: frozenset[str] | None = LOOPBACK_NAMES) -> Starlette:
    """The page and what it asks for.

    :param names: by which the server may be addressed; ``None`` for any.
    """

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def palette(request: Request) -> Response:
        return Response(css_variables(), media_type="text/css")

    async def models(request: Request) -> Response:
        return await _told(explorer.describe)

    async def example(request: Request) -> Response:
        name, number = request.query_params.get("model", ""), request.query_params.get("number", "0")
        if not number.isascii() or not number.isdigit() or len(number) > 9:
            return _refusal("the number of an example is a whole number", 400)
        return await _told(lambda: explorer.example(name, int(number)))

    async def inspect(request: Request) -> Response:
        return await _asked(request, lambda data: explorer.inspect(Query.read(data)))

    async def neighbours(request: Request) -> Response:
        return await _asked(
            request,
            lambda data: explorer.neighbours(
                Query.read(data), whole_number(data, "sequence"), whole_number(data, "step")
            ),
        )

    routes = [
        Route("/", page),
        Route("/api/models", models),
        Route("/api/example", example),
        Route("/api/inspect", inspect, methods=["POST"]),
        Route("/api/neighbours", neighbours, methods=["POST"]),
        Route("/static/palette.css", palette),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(_Guard, names=names)])


async def _asked(request: Request, answer: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Response:
    """Read the question in a request, and answer it."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        # which other sites cannot send unasked
        return _refusal("a question is sent as application/json", 415)
    try:
        async with asyncio.timeout(MOST_SECONDS):
            body = await _body(request)
    except TimeoutError:
        return _refusal(f"the question has not come in within {MOST_SECONDS} seconds", 408)
    if body is None:
        return _refusal(f"the text is too long: at most {MOST_BYTES // 1024} kB are read", 413)
    return await _told(lambda: answer(read_json(body)))


async def _body(request: Request) -> bytes | None:
    """The body of a request; nothing if it is too long."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            return None
    return bytes(body)


async def _told(work: Callable[[], dict[str, Any]]) -> Response:
    """The result of some work, done beside the loop that serves the page; errors as JSON."""
    try:
        return JSONResponse(await run_in_threadpool(work))
    except CrvnnError as error:
        return _refusal(str(error).replace("--set model.", ""), 400)
    except Exception:  # a bug, of ours or of a plug-in: the page says so and stays
        traceback.print_exc(file=sys.stderr)
        return _refusal("something went wrong in crvnn itself; its terminal shows the traceback", 500)


def _refusal(message: str, status: int) -> JSONResponse:
    return JSONResponse({"error": message}, status)


class _Guard:
    """Refuses requests that other pages cause, under another name or from another origin; adds the headers."""

    def __init__(self, app: ASGIApp, names: frozenset[str] | None) -> None:
        self.app, self.names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        await self._chosen(headers)(scope, receive, send_with_headers)

    def _chosen(self, headers: Mapping[str, str]) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        host, origin = headers.get("host", ""), headers.get("origin")
        if self.names is not None and _name(host) not in self.names:
            return _refusal(f"this server does not answer to the name {host!r}", 421)
        if origin is not None and origin.partition("://")[2] != host:
            return _refusal(f"pages of {origin} may not ask here", 403)
        return self.app


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
