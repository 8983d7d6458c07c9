"""An HTTP proxy before a tracking server, which can answer as broken servers and the proxies before them do."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}  # headers of one connection, not forwarded
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with no time: closing sends RST
LOGIN = b"<html><body><form action=/login>Please sign in</form></body></html>"
Fault = Callable[["Handler"], None]


class Proxy(ThreadingHTTPServer):
    """Forwards requests to the server at `uri`, but answers each with `fault` where there is one.

    `answered` counts the answers that were those of the server, `faulty` the others.
    """

    daemon_threads = True

    def __init__(self, uri: str):
        super().__init__(("127.0.0.1", 0), Handler)
        self.target = urlsplit(uri).netloc
        self.uri = f"http://127.0.0.1:{self.server_port}"
        self.fault: Fault | None = None
        self.healed = threading.Event()
        self.answered = self.faulty = 0

    def heal(self) -> None:
        """From now on it answers as the server does; what hangs gets no answer any more."""
        self.fault = None
        self.healed.set()

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing where a client has gone away."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy  # pyright: ignore[reportIncompatibleVariableOverride]
    sent: bytes

    def handle_request(self) -> None:
        self.sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if fault := self.server.fault:
            self.server.faulty += 1
            fault(self)
        else:
            self.forward()
            self.server.answered += 1

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def fetch(self) -> tuple[int, list[tuple[str, str]], bytes]:
        """The server's answer."""
        there = http.client.HTTPConnection(self.server.target, timeout=60)
        try:
            there.request(self.command, self.path, self.sent, {**self.headers, "Host": self.server.target})
            answer = there.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            there.close()

    def forward(self) -> None:
        status, headers, body = self.fetch()
        self.answer(status, body, [pair for pair in headers if pair[0].lower() not in HOP])

    def answer(self, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
        self.send_response_only(status)
        for pair in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(*pair)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def answering(status: int, body: bytes, kind: str = "text/html") -> Fault:
    """Another answer than the server's, which never gets the request."""
    return lambda handler: handler.answer(status, body, [("Content-Type", kind)])


def hang(handler: Handler) -> None:
    """Takes the request and answers nothing until the proxy is healed; the server never gets it."""
    handler.server.healed.wait()
    handler.close_connection = True


def reset(handler: Handler) -> None:
    """The server gets the request and answers it; the connection breaks amid the answer."""
    status, _, body = handler.fetch()
    handler.send_response_only(status)
    handler.send_header("Content-Length", str(len(body) + 1000))
    handler.end_headers()
    handler.wfile.write(body)
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    handler.connection.shutdown(socket.SHUT_RD)
    handler.close_connection = True


def in_turn(faults: Iterable[Fault | None]) -> Fault:
    """One fault for each request; None, and the end of `faults`, stand for the server's own answer."""
    lock, left = threading.Lock(), iter(faults)

    def next_one(handler: Handler) -> None:
        with lock:
            fault = next(left, None)
        (fault or Handler.forward)(handler)

    return next_one


@contextmanager
def proxy_before(uri: str) -> Iterator[Proxy]:
    with Proxy(uri) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.heal()
            proxy.shutdown()
            thread.join()
