"""A stand-in of the hub of Hugging Face on this machine: what its client asks for to make a model repository and to
commit files to it, small ones in the commit, weights through Git LFS."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

TOKEN = "hf_of_the_test"


@dataclass
class Hub:
    """repositories: by name, their files; `requests`: METHOD PATH of each request that changed something."""

    address: str
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    private: set[str] = field(default_factory=set)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        self.requests.append(f"{method} {path}")
        path = path.partition("?")[0]
        if method == "PUT":
            self.objects[path.rpartition("/")[2]] = body
            return 200, {}
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'tester'}/{asked['name']}"
            if asked.get("visibility") == "private":
                self.private.add(name)
            known = name in self.repositories
            self.repositories.setdefault(name, {})
            return (409 if known else 200), {"url": f"{self.address}/{name}", "error": "You already created this model"}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path.endswith("/preupload/main"):
            files = [
                {"path": file["path"], "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                 "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]  # fmt: skip
            return 200, {"files": files}
        if path.endswith(".git/info/lfs/objects/batch"):
            asked = json.loads(body)["objects"]
            return 200, {
                "transfer": "basic",
                "objects": [
                    one | {"actions": {"upload": {"href": f"{self.address}/objects/{one['oid']}"}}} for one in asked
                ],
            }
        if path.endswith("/commit/main"):
            return 200, self._commit(path.split("/api/models/")[1].removesuffix("/commit/main"), body)
        return 404, {"error": "not found"}

    def _commit(self, name: str, body: bytes) -> dict[str, Any]:
        files = self.repositories[name]
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.objects[value["oid"]]
        return {"success": True, "commitUrl": f"{self.address}/{name}/commit/{'a' * 40}", "commitOid": "a" * 40}


@contextmanager
def local_hub() -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            allowed = self.path.startswith("/objects/") or self.headers.get("Authorization") == f"Bearer {TOKEN}"
            status, document = hub.answer(self.command, self.path, body) if allowed else (401, {"error": "no token"})
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.git-lfs+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_GET = _answer

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
