"""The explorer, served for a test, and requests to it."""

import http.client
import json
import threading
from contextlib import contextmanager

from crvnn_explorer import command
from crvnn_explorer.server import LOOPBACK, create_app, server_of


@contextmanager
def serving(explorer, hosts=LOOPBACK):
    """The explorer at a free port of this machine, until the end of the block."""
    sock = command.listening("127.0.0.1", 0)
    server = server_of(create_app(explorer, hosts))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        yield sock.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        sock.close()


def asking(port):
    """A function that sends a request, and returns the status and the body of the response."""

    def send(path, body=None, headers=(), host=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        sent = {"Host": host or f"127.0.0.1:{port}", **dict(headers)}
        if isinstance(body, dict):
            body = json.dumps(body)
        if body is not None:
            sent = {"Content-Type": "application/json", **sent}
        connection.request("GET" if body is None else "POST", path, body, sent)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        send.headers = response.headers
        kind = response.headers.get("content-type", "")
        return response.status, json.loads(content) if "json" in kind else content.decode()

    return send
