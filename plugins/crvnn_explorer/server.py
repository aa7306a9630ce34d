"""The explorer's web server. All input is text and nothing else; what a user did wrong is a 400 that says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crvnn_core import CrvnnError
from crvnn_core.display.palette import css_variables
from crvnn_explorer.models import Explorer
from crvnn_explorer.request import Query, read_json, whole_number
from crvnn_explorer.workers import SMALL_COST, BusyError, Workers

STATIC = Path(__file__).parent / "static"
#: Bytes of a request at most.
MOST_BYTES = 64 * 1024
#: Seconds at most until a request has come in.
MOST_SECONDS = 20
#: Seconds at most until it is answered, with those in which it waits for others.
MOST_ANSWERING = 60
#: Connections at once; uvicorn answers others with 503.
MOST_CONNECTIONS = 128
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
            lifespan="on",
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
                app = refusal(f"pages of {origin} may not ask here", 403)
        await app(scope, receive, send_with_headers)


def create_app(explorer: Explorer, hosts: Iterable[str] = LOOPBACK) -> Starlette:
    """The page and what it asks for.

    :param hosts: by which the server may be addressed.
    """
    workers = Workers()

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def palette(request: Request) -> Response:
        return Response(css_variables(), media_type="text/css")

    async def models(request: Request) -> Response:
        return await _answered(request, workers, explorer.describe)

    async def example(request: Request) -> Response:
        name, number = request.query_params.get("model", ""), request.query_params.get("number", "0")
        if not number.isascii() or not number.isdigit() or len(number) > 9:
            return refusal("the number of an example is a whole number", 400)
        return await _answered(
            request,
            workers,
            lambda: explorer.example(name, int(number)),
            lambda: 0 if explorer.has_examples(name) else SMALL_COST + 1,
        )

    async def inspect(request: Request) -> Response:
        return await _asked(request, workers, explorer, lambda query, _: explorer.inspect(query))

    async def neighbours(request: Request) -> Response:
        return await _asked(
            request,
            workers,
            explorer,
            lambda query, data: explorer.neighbours(
                query, whole_number(data, "sequence"), whole_number(data, "step")
            ),
        )

    @contextlib.asynccontextmanager
    async def working(app: Starlette) -> AsyncIterator[None]:
        yield
        workers.close()

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
    return Starlette(routes=routes, middleware=middleware, lifespan=working)


async def _asked(
    request: Request,
    workers: Workers,
    explorer: Explorer,
    answer: Callable[[Query, Mapping[str, Any]], dict[str, Any]],
) -> Response:
    """Read the question in a request, and answer it."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        # which other sites cannot send unasked
        return refusal("a question is sent as application/json", 415)
    try:
        async with asyncio.timeout(MOST_SECONDS):
            body = await _body(request)
    except TimeoutError:
        return refusal(f"the question has not come in within {MOST_SECONDS} seconds", 408)
    except ClientDisconnect:
        return _unread()
    if body is None:
        return refusal(f"the text is too long: at most {MOST_BYTES // 1024} kB are read", 413)

    def question() -> tuple[Query, dict[str, Any]]:
        data = read_json(body)
        return Query.read(data), data

    return await _answered(
        request,
        workers,
        lambda: answer(*question()),
        lambda: explorer.cost(question()[0]),
    )


async def _body(request: Request) -> bytes | None:
    """The body of a request; nothing if it is too long."""
    declared = request.headers.get("content-length", "0")
    if not declared.isdigit() or len(declared) > 9 or int(declared) > MOST_BYTES:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            return None
    return bytes(body)


async def _answered(
    request: Request,
    workers: Workers,
    work: Callable[[], dict[str, Any]],
    cost: Callable[[], int] = lambda: 0,
) -> Response:
    """The result of some work as JSON, and errors likewise; if the client goes away, it is not begun."""
    answer = asyncio.ensure_future(workers.run(lambda: _json(work()), cost))
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        done, _ = await asyncio.wait(
            {answer, gone}, timeout=MOST_ANSWERING, return_when=asyncio.FIRST_COMPLETED
        )
        if answer in done:
            return Response(await answer, media_type="application/json")
        if gone in done:
            return _unread()
        return _later(f"it has not been answered within {MOST_ANSWERING} seconds")
    except CrvnnError as error:
        return refusal(str(error).replace("--set model.", ""), 400)
    except BusyError:
        return _later("too many long texts wait for their answers")
    except Exception:  # a bug, of ours or of a plug-in: the page says so and stays
        traceback.print_exc(file=sys.stderr)
        return refusal("something went wrong in crvnn itself; its terminal shows the traceback", 500)
    finally:
        answer.cancel()
        gone.cancel()


def _json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def _disconnected(request: Request) -> None:
    """Wait until the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _unread() -> Response:
    """An answer to a client that has gone."""
    return Response(status_code=499)


def _later(message: str) -> Response:
    return refusal(f"{message}; try again later", 503, {"Retry-After": "5"})


def refusal(message: str, status: int, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An error that the page shows."""
    return JSONResponse({"error": message}, status, headers)
