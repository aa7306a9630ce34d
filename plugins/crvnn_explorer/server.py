"""The explorer's web server. All input is text and nothing else; what a user did wrong is a 400 that says so."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
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
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crvnn_core import CrvnnError
from crvnn_core.display.palette import css_variables
from crvnn_explorer.models import Explorer
from crvnn_explorer.request import Query, read_json, whole_number

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
    """A server. It logs nothing: whoever sends malformed requests fills no terminal, and the app prints bugs."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
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
                app = refusal(f"pages of {origin} may not ask here", 403)
        await app(scope, receive, send_with_headers)


def create_app(explorer: Explorer, hosts: Iterable[str] = LOOPBACK) -> Starlette:
    """The page and what it asks for.

    :param hosts: by which the server may be addressed.
    """
    one_at_a_time = asyncio.Lock()  # models and their caches are not for several threads

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def palette(request: Request) -> Response:
        return Response(css_variables(), media_type="text/css")

    async def models(request: Request) -> Response:
        return await answered(explorer.describe)

    async def example(request: Request) -> Response:
        name, number = request.query_params.get("model", ""), request.query_params.get("number", "0")
        if not number.isascii() or not number.isdigit() or len(number) > 9:
            return refusal("the number of an example is a whole number", 400)
        return await answered(lambda: explorer.example(name, int(number)))

    async def inspect(request: Request) -> Response:
        return await asked(request, lambda query, _: explorer.inspect(query))

    async def neighbours(request: Request) -> Response:
        def answer(query: Query, data: Mapping[str, Any]) -> dict[str, Any]:
            return explorer.neighbours(query, whole_number(data, "sequence"), whole_number(data, "step"))

        return await asked(request, answer)

    async def asked(
        request: Request, answer: Callable[[Query, Mapping[str, Any]], dict[str, Any]]
    ) -> Response:
        """Read the question in a request, and answer it."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            # which other sites cannot send unasked
            return refusal("a question is sent as application/json", 415)
        body = await request.body()

        def work() -> dict[str, Any]:
            data = read_json(body)
            return answer(Query.read(data), data)

        return await answered(work)

    async def answered(work: Callable[[], dict[str, Any]]) -> Response:
        """The result of some work as JSON, and errors likewise."""
        try:
            async with one_at_a_time:
                return Response(await run_in_threadpool(lambda: _json(work())), media_type="application/json")
        except CrvnnError as error:
            return refusal(str(error).replace("--set model.", ""), 400)
        except Exception:  # a bug, of ours or of a plug-in: the page says so and stays
            traceback.print_exc(file=sys.stderr)
            return refusal("something went wrong in crvnn itself; its terminal shows the traceback", 500)

    routes = [
        Route("/", page),
        Route("/api/models", models),
        Route("/api/example", example),
        Route("/api/inspect", inspect, methods=["POST"]),
        Route("/api/neighbours", neighbours, methods=["POST"]),
        Route("/static/palette.css", palette),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    middleware = [
        Middleware(SameOrigin),
        Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
    ]
    return Starlette(routes=routes, middleware=middleware)


def _json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def refusal(message: str, status: int) -> JSONResponse:
    """An error that the page shows."""
    return JSONResponse({"error": message}, status)
