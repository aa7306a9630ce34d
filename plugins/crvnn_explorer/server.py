"""The explorer's web server. All input is text and nothing else; what a user did wrong is a 400 that says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from crvnn_core import CrvnnError
from crvnn_core.display.palette import css_variables
from crvnn_explorer.guard import LOOPBACK, Guard, Hosts, refusal
from crvnn_explorer.lanes import SMALL_COST, BusyError, Lanes, OverrunError
from crvnn_explorer.models import Explorer
from crvnn_explorer.request import Query, read_json, whole_number

STATIC = Path(__file__).parent / "static"
#: Bytes of a request at most.
MOST_BYTES = 64 * 1024
#: Seconds at most until a request has come in.
MOST_SECONDS = 20
#: Seconds at most until it is answered, with those in which it waits for others.
MOST_ANSWERING = 60


def create_app(explorer: Explorer, hosts: Hosts = LOOPBACK) -> Starlette:
    """The page and what it asks for.

    :param hosts: by which the server may be addressed.
    """
    lanes = Lanes(explorer)

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def palette(request: Request) -> Response:
        return Response(css_variables(), media_type="text/css")

    async def models(request: Request) -> Response:
        return await _answered(request, lanes, Explorer.describe)

    async def example(request: Request) -> Response:
        name, number = request.query_params.get("model", ""), request.query_params.get("number", "0")
        if not number.isascii() or not number.isdigit() or len(number) > 9:
            return refusal("the number of an example is a whole number", 400)
        return await _answered(
            request,
            lanes,
            lambda explorer: explorer.example(name, int(number)),
            lambda explorer: 0 if explorer.has_examples(name) else SMALL_COST + 1,
        )

    async def inspect(request: Request) -> Response:
        return await _asked(request, lanes, lambda explorer, query, _: explorer.inspect(query))

    async def neighbours(request: Request) -> Response:
        return await _asked(
            request,
            lanes,
            lambda explorer, query, data: explorer.neighbours(
                query, whole_number(data, "sequence"), whole_number(data, "step")
            ),
        )

    @contextlib.asynccontextmanager
    async def working(app: Starlette) -> AsyncIterator[None]:
        with lanes:
            yield

    routes = [
        Route("/", page),
        Route("/api/models", models),
        Route("/api/example", example),
        Route("/api/inspect", inspect, methods=["POST"]),
        Route("/api/neighbours", neighbours, methods=["POST"]),
        Route("/static/palette.css", palette),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, hosts=hosts)], lifespan=working)


async def _asked(
    request: Request,
    lanes: Lanes,
    answer: Callable[[Explorer, Query, Mapping[str, Any]], dict[str, Any]],
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
        lanes,
        lambda explorer: answer(explorer, *question()),
        lambda explorer: explorer.cost(question()[0]),
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
    lanes: Lanes,
    work: Callable[[Explorer], dict[str, Any]],
    cost: Callable[[Explorer], int] = lambda _: 0,
) -> Response:
    """The result of some work as JSON, and errors likewise; if the client goes away, the work ends."""
    answer = asyncio.ensure_future(lanes.run(lambda explorer: _json(work(explorer)), cost))
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        done, _ = await asyncio.wait(
            {answer, gone}, timeout=MOST_ANSWERING, return_when=asyncio.FIRST_COMPLETED
        )
        if answer in done:
            return Response(await answer, media_type="application/json")
        if gone in done:
            return _unread()
        return _later(f"it has not been answered within {MOST_ANSWERING} seconds", 1)
    except CrvnnError as error:
        return refusal(str(error).replace("--set model.", ""), 400)
    except BusyError as error:
        return _later("too many questions wait to be answered", error.seconds)
    except OverrunError:
        return _later("this takes too long here: try a shorter text, or settings with fewer steps", 1)
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


def _later(message: str, seconds: int) -> Response:
    return refusal(f"{message}; try again later", 503, {"Retry-After": str(seconds)})
