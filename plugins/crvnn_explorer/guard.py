"""Which requests are refused before anything is done: of other pages, and under other names."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from attrs import frozen
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


@frozen
class Hosts:
    """The hosts that a request may name as the one that it is sent to.

    A page elsewhere can give its own name the address of this machine (DNS rebinding): its requests then come from the
    same origin as far as the browser knows, but under that name.
    """

    names: frozenset[str]
    #: Whether any IP address will do: with one, no other name is in play.
    addresses: bool = False

    def __contains__(self, header: object) -> bool:
        """Whether this ``Host`` header names one of them, with or without a port."""
        name = _name(str(header))
        return name in self.names or (self.addresses and _is_address(name))


LOOPBACK = Hosts(frozenset({"127.0.0.1", "localhost", "::1"}))


def hosts_of(host: str, bound: str, more: Iterable[str] = ()) -> Hosts:
    """The hosts under which a server is reached.

    :param host: as the user gave it.
    :param bound: the address that it became. Beyond loopback the machine's own name and addresses are answered too.
    :param more: names that the user allows besides.
    """
    names = LOOPBACK.names | {_name(name) for name in more} | {host.lower()}
    if ip_address(bound.partition("%")[0]).is_loopback:
        return Hosts(names)
    machine = socket.gethostname().lower()
    return Hosts(names | {machine, f"{machine}.local"}, addresses=True)


def refusal(message: str, status: int, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An error that the page shows."""
    return JSONResponse({"error": message}, status, headers)


class Guard:
    """Middleware that refuses what other pages ask for, or under another name; adds headers to every answer."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return None

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        chosen = self._refusal(scope["path"], headers) or self.app
        return await chosen(scope, receive, send_with_headers)

    def _refusal(self, path: str, headers: Mapping[str, str]) -> JSONResponse | None:
        host, origin, site = headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site")
        if host not in self.hosts:
            return refusal(
                f"this server does not answer to the name {host!r}; 'crvnn explore --allowed-host NAME' lets it",
                421,
            )
        if origin is not None and origin.partition("://")[2] != host:
            return refusal(f"pages of {origin} may not ask here", 403)
        if path.startswith("/api/") and site in (
            "cross-site",
            "same-site",
        ):  # images and the like have no Origin
            return refusal("pages of other origins may not ask here", 403)
        return None


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.lower() if host.count(":") > 1 else host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
