"""Connections to the explorer: how many there may be, and how long one may take to send a request or read an answer."""

from __future__ import annotations

import asyncio

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Connections at once.
MOST_CONNECTIONS = 128
#: Seconds until the headers of a request have come in, or what is left of a body after the answer.
MOST_SECONDS = 10.0
#: Seconds until an answer has been read.
MOST_READING = 30.0

_FULL = b'{"error":"too many connections are open; try again soon"}'
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_FULL), _FULL)
)


class Connection(H11Protocol):
    """Closes connections on which a request does not come in, or an answer is not read, within a time.

    uvicorn itself closes only those that are idle after an answer.
    """

    _incoming: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.write(_REFUSAL)
            transport.close()
        self._watch()

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except h11.LocalProtocolError:  # faults behind a request that is being answered: no error can be sent
            self.transport.abort()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg)
        if (
            self.cycle is not None
        ):  # of a request whose body is malformed: what the app answers cannot be sent too
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()
        self._watch_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._incoming, self._reading):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the clock where a request is incomplete, and stop it where it is not."""
        theirs, ours = self.conn.their_state, self.conn.our_state
        body = theirs is h11.SEND_BODY and ours in (
            h11.DONE,
            h11.MUST_CLOSE,
        )  # before the answer, the app waits for it
        if theirs is h11.IDLE or body:
            if self._incoming is None:
                self._incoming = self.loop.call_later(MOST_SECONDS, self.transport.abort)
        elif self._incoming is not None:
            self._incoming.cancel()
            self._incoming = None

    def _watch_reading(self) -> None:
        """Start the clock where an answer waits to be read."""
        if self._reading is None and self.transport.get_write_buffer_size():
            self._reading = self.loop.call_later(MOST_READING, self._expect_read)

    def _expect_read(self) -> None:
        self._reading = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()


def server_of(app: ASGIApp) -> uvicorn.Server:
    """A server with these connections. Only errors are logged: whoever sends malformed requests fills no terminal."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="on",
            log_level="error",
            access_log=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
    )
