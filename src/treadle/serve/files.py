"""The page's own files, read and compressed once. Only files in the list are served: no path is ever looked up."""

import gzip
import hashlib
import os

from starlette.requests import Request
from starlette.responses import Response

from treadle.io.reading import read

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "webmanifest": "application/manifest+json",
}


class WebFile:
    def __init__(self, name: str, data: bytes) -> None:
        self.kind = KINDS[name.rpartition(".")[2]]
        self.plain = data
        self.packed = gzip.compress(data, 9, mtime=0)
        self.tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'

    def response(self, request: Request) -> Response:
        headers = {"etag": self.tag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.packed, headers={**headers, "content-encoding": "gzip"}, media_type=self.kind)
        return Response(self.plain, headers=headers, media_type=self.kind)


def load() -> dict[str, WebFile]:
    """Path -> file, for everything in `serve/web`."""
    found = {}
    directory = os.path.join(os.path.dirname(__file__), "web")
    for name in sorted(os.listdir(directory)):
        if name.rpartition(".")[2] in KINDS:
            found["/" + ("" if name == "index.html" else name)] = WebFile(name, read(os.path.join(directory, name)))
    return found
