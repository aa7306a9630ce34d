"""A web server on this machine that can do what servers do wrong."""

import hashlib
import http.server
import os
import re
import threading
import time
from contextlib import contextmanager
from unittest import mock


class Site:
    """What is served and how, and what was asked for."""

    def __init__(self):
        self.files = {}
        self.ranges = True  # whether parts of files are served
        self.tags = True  # whether files have an ETag
        self.cuts = []  # for each of the next answers, after how many bytes it breaks off; None for not
        self.answers = []  # status codes of the next answers, instead of files
        self.length = None  # the Content-Length that is said, in place of the true one; empty for none
        self.kind = "application/octet-stream"
        self.pace = 0.0  # seconds that a file takes
        self.asked = []  # path, and the Range that was asked for
        self.address = ""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        site = self.server.site
        name, wanted = self.path.lstrip("/"), self.headers.get("Range")
        site.asked.append((name, wanted))
        if site.answers:
            self._refuse(site.answers.pop(0))
        elif name not in site.files:
            self._refuse(404)
        else:
            self._serve(site, site.files[name], wanted)

    def _serve(self, site, content, wanted):
        tag = f'"{hashlib.sha256(content).hexdigest()[:8]}"'
        start = 0
        if wanted and site.ranges and self.headers.get("If-Range", tag) == tag:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(content):
                self._refuse(416, {"Content-Range": f"bytes */{len(content)}"})
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if site.tags:
            self.send_header("ETag", tag)
        self.send_header("Content-Type", site.kind)
        length = str(len(content) - start) if site.length is None else site.length
        if length:
            self.send_header("Content-Length", length)
        self.end_headers()
        cut = site.cuts.pop(0) if site.cuts else None
        self._send(content[start:] if cut is None else content[start : start + cut], site.pace)

    def _send(self, content, pace):
        size = -(-len(content) // 20) if pace else len(content)
        try:
            for place in range(0, len(content), max(size, 1)):
                self.wfile.write(content[place : place + size])
                if pace:
                    time.sleep(pace / 20)
        except ConnectionError:  # the other side was killed
            if not pace:
                raise

    def _refuse(self, status, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


@contextmanager
def serving():
    """A site that is up until the end of the block."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.site = Site()
    server.site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with mock.patch.dict(os.environ, {"no_proxy": "127.0.0.1"}):
            yield server.site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
