"""Connections that do not end by themselves, too many of them, and requests that are none."""

import logging
import socket
import time

import pytest

from crvnn_explorer import command, connections
from exploring import serving
from malformed_requests import MALFORMED, answer, connected, damaged, send


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
def test_a_connection_whose_headers_do_not_end_is_closed(port, monkeypatch, sent):
    monkeypatch.setattr(connections, "MOST_SECONDS", 0.2)
    with connected(port) as client:
        client.sendall(sent)
        assert answer(client) == b""


def test_headers_that_come_byte_by_byte_gain_no_time(port, monkeypatch):
    monkeypatch.setattr(connections, "MOST_SECONDS", 0.5)
    with connected(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        client.settimeout(0.05)
        for _ in range(1000):
            try:
                client.sendall(b"a")
                assert client.recv(1) == b""
            except TimeoutError:  # still open
                continue
            except OSError:
                pass
            return
    pytest.fail("it was not closed")


def test_a_second_request_on_a_connection_has_to_end_too(port, monkeypatch):
    monkeypatch.setattr(connections, "MOST_SECONDS", 0.3)
    with connected(port) as client:
        client.sendall(b"GET /static/palette.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HT")
        found = answer(client)
    assert found.startswith(b"HTTP/1.1 200 ")
    assert found.count(b"HTTP/1.1") == 1


def test_a_body_without_end_is_refused_and_its_connection_closed(port, monkeypatch):
    monkeypatch.setattr(connections, "MOST_SECONDS", 0.3)
    headers = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 999999999"
    with connected(port) as client:
        client.sendall(b"POST /api/inspect HTTP/1.1\r\n" + headers + b"\r\n\r\n{")
        assert answer(client).startswith(b"HTTP/1.1 413 ")


def test_an_answer_that_nobody_reads_does_not_stay(explorer, monkeypatch):
    """Its connection is closed: there is room for the next."""
    monkeypatch.setattr(connections, "MOST_READING", 0.2)
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 1)
    listening = command.listening

    def with_small_buffer(*address):
        sock = listening(*address)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return sock

    monkeypatch.setattr(command, "listening", with_small_buffer)
    with serving(explorer) as port, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET /static/app.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400)
        client.recv(1)
        deadline = time.monotonic() + 20
        while not _answers(port):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _answers(port):
    with connected(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return answer(client).startswith(b"HTTP/1.1 200 ")


def test_more_connections_than_allowed_are_told_to_come_back(explorer, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    with serving(explorer) as port:
        clients = [connected(port) for _ in range(3)]
        for client in clients:  # until all have been accepted
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"
        with connected(port) as client:
            found = answer(client)
        for client in clients:
            client.close()
    assert found.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1\r\n" in found


def test_malformed_requests_leave_the_server_up_and_its_terminal_empty(port, ask, capfd):
    logged, handler = [], logging.Handler()
    handler.emit = logged.append
    logging.getLogger("uvicorn.error").addHandler(handler)
    for request in damaged(4 * len(MALFORMED)):
        send(port, request)
    assert ask("/api/models")[0] == 200
    logging.getLogger("uvicorn.error").removeHandler(handler)
    assert not [record.getMessage() for record in logged]
    assert capfd.readouterr().err == ""
