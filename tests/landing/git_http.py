"""Git over HTTP as servers offer it: `git http-backend` behind a small real HTTP server, with a password if wanted."""

import base64
import os
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import TracebackType


class GitServer:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.password = ""
        self.cut_answers = 0
        """How many pushes are carried out and then get no answer."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                outer.answer(self)

            do_POST = do_GET

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "GitServer":
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, asked: BaseHTTPRequestHandler) -> None:
        wanted = "Basic " + base64.b64encode(f"x:{self.password}".encode()).decode()
        if self.password and asked.headers.get("Authorization") != wanted:
            asked.send_response(401)
            asked.send_header("WWW-Authenticate", 'Basic realm="git"')
            asked.end_headers()
            return
        path, _, query = asked.path.partition("?")
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.directory),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.receivepack",
            "GIT_CONFIG_VALUE_0": "true",
            "REQUEST_METHOD": asked.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": asked.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": asked.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": asked.headers.get("Git-Protocol", ""),
        }
        body = self._body(asked)
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True)
        if self.cut_answers and path.endswith("/git-receive-pack") and asked.command == "POST":
            self.cut_answers -= 1
            asked.close_connection = True
            return
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        fields = [line.partition(": ") for line in head.decode().split("\r\n")]
        status = next((value for name, _, value in fields if name == "Status"), "200 OK")
        asked.send_response(int(status.split()[0]))
        for name, _, value in fields:
            if name != "Status":
                asked.send_header(name, value)
        asked.end_headers()
        asked.wfile.write(rest)

    def _body(self, asked: BaseHTTPRequestHandler) -> bytes:
        if asked.headers.get("Transfer-Encoding") == "chunked":
            found = b""
            while size := int(asked.rfile.readline(), 16):
                found += asked.rfile.read(size)
                asked.rfile.readline()
            return found
        return asked.rfile.read(int(asked.headers.get("Content-Length", 0)))
