"""A web server on this machine that can do what servers do wrong."""

import hashlib
import http.server
import os
import re
import threading
import time
from contextlib import contextmanager
from unittest import mock

from attrs import Factory, define


class Handler(http.server.BaseHTTPRequestHandler):
    """Responds from ``self.server.state``."""

    def respond(self, status, content=b"", **headers):
        self.send_response(status)
        for name, value in {"Content_Length": str(len(content)), **headers}.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.write(content)

    def write(self, content):
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@contextmanager
def up(handler, state):
    """Serve until the end of the block; ``state.address`` is where."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.state = state
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with mock.patch.dict(os.environ, {"no_proxy": "127.0.0.1"}):
            yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@define
class Site:
    """The files that are served, how, and the requests so far."""

    files: dict[str, bytes] = Factory(dict)
    ranges: bool = True  # whether parts of files are served
    tags: bool = True  # whether files have an ETag
    cuts: list[int | None] = Factory(list)  # bytes after which each of the next responses breaks off
    answers: list[int] = Factory(list)  # status codes of the next responses, instead of files
    length: str | None = None  # the Content-Length in place of the true one; empty for none
    kind: str = "application/octet-stream"
    pace: float = 0.0  # seconds that a file takes
    asked: list[tuple[str, str | None]] = Factory(list)  # path and Range of each request
    address: str = ""


class _SiteHandler(Handler):
    def do_GET(self):
        site = self.server.state
        name, wanted = self.path.lstrip("/"), self.headers.get("Range")
        site.asked.append((name, wanted))
        content = site.files.get(name)
        if site.answers or content is None:
            self.respond(site.answers.pop(0) if site.answers else 404)
            return
        tag = f'"{hashlib.sha256(content).hexdigest()[:8]}"'
        status, start, headers = 200, 0, {"ETag": tag if site.tags else "", "Content_Type": site.kind}
        if wanted and site.ranges and self.headers.get("If-Range", tag) == tag:
            status, start = 206, int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(content):
                self.respond(416, Content_Range=f"bytes */{len(content)}")
                return
            headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        if site.length is not None:
            headers["Content_Length"] = site.length
        self.respond(status, content[start:], **headers)

    def write(self, content):
        site = self.server.state
        cut = site.cuts.pop(0) if site.cuts and content else None
        content = content[:cut]
        size = -(-len(content) // 20) if site.pace else len(content)
        try:
            for place in range(0, len(content), max(size, 1)):
                self.wfile.write(content[place : place + size])
                if site.pace:
                    time.sleep(site.pace / 20)
        except ConnectionError:  # the other side was killed
            if not site.pace:
                raise


def serving():
    """A site that is up until the end of the block."""
    return up(_SiteHandler, Site())
