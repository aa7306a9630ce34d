"""The explorer, served for a test."""

import threading
from contextlib import contextmanager

from crvnn_explorer import command
from crvnn_explorer.server import LOOPBACK_NAMES, create_app


@contextmanager
def serving(explorer, names=LOOPBACK_NAMES):
    """The explorer at a free port of this machine, until the end of the block."""
    import uvicorn

    sock = command.listening("127.0.0.1", 0)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(explorer, names), log_level="warning", lifespan="off", timeout_graceful_shutdown=1
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        yield sock.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        sock.close()
