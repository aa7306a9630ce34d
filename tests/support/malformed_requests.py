"""Malformed HTTP requests, and a client that sends bytes as they are."""

import random
import socket

MALFORMED = [
    b"\x00\xff\xfe\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET " + b"/" * 40_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    b"POST /api/inspect HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/inspect HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /api/inspect HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}{}{\r\nffffffffff\r\n",
    b"POST /api/inspect HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b'Content-Length: 9\r\n\r\n{"a":"\xff"}',
    b"POST /api/inspect HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 99\r\n\r\n{",
    b"GET /api/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n\x00\x01 garbage behind\r\n\r\n",
    b"GET /static/%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /api/example?model=%ff&number=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
]


def damaged(count, seed=0):
    """Malformed requests: each of the list, then with random bytes changed and cut off at random."""
    generator = random.Random(seed)
    for number in range(count):
        request = bytearray(MALFORMED[number % len(MALFORMED)])
        for _ in range(number // len(MALFORMED)):
            request[generator.randrange(len(request))] = generator.randrange(256)
        yield bytes(
            request[: generator.randrange(1, len(request) + 1)] if number >= len(MALFORMED) else request
        )


def send(port, request):
    with connected(port) as client:
        try:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
        except OSError:  # the server has closed it already
            return
        answer(client)


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def answer(client):
    """Everything until the server closes the connection."""
    found = b""
    try:
        while chunk := client.recv(65536):
            found += chunk
    except ConnectionResetError:
        pass
    return found
