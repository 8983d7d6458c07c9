"""An HTTP proxy before a tracking server, which can answer as broken servers and the proxies before them do."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}  # headers of one connection, not forwarded
Fault = Callable[["Handler"], None]


class Proxy(ThreadingHTTPServer):
    """Forwards requests to the server at `uri`, but answers each with `fault` where there is one. `faulty` counts
    these."""

    daemon_threads = True

    def __init__(self, uri: str):
        super().__init__(("127.0.0.1", 0), Handler)
        self.target = urlsplit(uri).netloc
        self.uri = f"http://127.0.0.1:{self.server_port}"
        self.fault: Fault | None = None
        self.healed = threading.Event()
        self.faulty = 0

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

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def forward(self, lacking: int = 0) -> None:
        """Answers as the server does; with `lacking`, as if so many bytes more were to come."""
        there = http.client.HTTPConnection(self.server.target, timeout=60)
        there.request(self.command, self.path, self.sent, {**self.headers, "Host": self.server.target})
        answer = there.getresponse()
        headers = [pair for pair in answer.getheaders() if pair[0].lower() not in HOP]
        self.answer(answer.status, answer.read(), headers, lacking)
        there.close()

    def answer(self, status: int, body: bytes, headers: list[tuple[str, str]], lacking: int = 0) -> None:
        self.send_response_only(status)
        for pair in [*headers, ("Content-Length", str(len(body) + lacking))]:
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


def break_off(handler: Handler) -> None:
    """The server gets the request and answers it; the connection breaks amid the answer."""
    handler.forward(lacking=1000)
    handler.close_connection = True
