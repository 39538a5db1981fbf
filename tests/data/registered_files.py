"""Small registered files, and a server on this machine that can misbehave."""

import hashlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from bnn_atlas.config.data.datasets import FileEntry

CSV = b"a,b,y\r\n1,2,3\r\n4,5.5,6\r\n-7,8,9e-3\r\n"
CSV_READER = {"format": "csv", "header": True, "columns": ["a", "b", "y"]}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def file_entry(content: bytes = CSV, **changes: Any) -> FileEntry:
    """An entry for a file with this content; its URL leads nowhere unless given."""
    fields: dict[str, Any] = {
        "name": "table.csv",
        "url": "http://127.0.0.1:9/table.csv",
        "mirror": "some/table.csv",
        "sha256": sha256(content),
        "read": CSV_READER,
    }
    return FileEntry.model_validate(fields | changes)


class Reply(NamedTuple):
    """One answer of the server."""

    body: bytes = b""
    status: int = 200
    length: int | None = None
    """Content-Length to claim instead of the true one."""
    together: int = 1
    """Requests of all paths that the second half of the body waits for."""


class Server:
    """Answers each path with its replies in turn, the last one for ever; counts the requests."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.requests: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                reply = server._next(self.path)
                self.send_response(reply.status)
                self.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
                self.end_headers()
                half = len(reply.body) // 2
                self.wfile.write(reply.body[:half])
                self.wfile.flush()
                while len(server.requests) < reply.together:
                    time.sleep(0.01)
                self.wfile.write(reply.body[half:])

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def serve(self, path: str, *replies: Reply) -> str:
        """Register the answers of a path and return its URL."""
        self.replies[path] = list(replies)
        return self.url + path

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _next(self, path: str) -> Reply:
        self.requests.append(path)
        replies = self.replies.get(path, [Reply(b"nothing here", 404)])
        return replies.pop(0) if len(replies) > 1 else replies[0]
