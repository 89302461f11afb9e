"""JSON-RPC in lines, as a right program of another vendor speaks it, with one fault if the command line names one.

`F("a name")` is true if that fault was asked for. Its name in the source is the list of the faults: the test reads it.
Plain Python and the standard library alone: it stands for a program that shares nothing with ours.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

NAME = sys.argv[1] if len(sys.argv) > 1 else ""


def F(name: str) -> bool:
    return name == NAME


class Refused(Exception):
    def __init__(self, code: int, message: str = "refused") -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Peer:
    """Reads requests on the main thread. A method that may take long runs in a thread of its own."""

    def __init__(self) -> None:
        self.methods: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.notices: dict[str, Callable[[dict[str, Any]], None]] = {}
        self.slow: set[str] = set()
        self._write = threading.Lock()
        self._asked: dict[str, Any] = {}
        self._answers = threading.Condition()

    def send(self, line: Any, *, jsonrpc: str = "2.0") -> None:
        said = {**line} if F("messages do not say that they are JSON-RPC 2.0") else {"jsonrpc": jsonrpc, **line}
        with self._write:
            sys.stdout.write(json.dumps(said, ensure_ascii=False) + "\n")
            sys.stdout.flush()

    def tell(self, method: str, params: dict[str, Any]) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The result of the client, or None if it answered with an error."""
        with self._answers:
            name = f"ask-{len(self._asked)}"
            self._asked[name] = None
            self.send({"id": name, "method": method, "params": params})
            while self._asked[name] is None:
                self._answers.wait()
            return self._asked[name].get("result")

    def serve(self) -> None:
        if F("a line of log is on the output"):
            print("starting up", flush=True)
        fd = sys.stdin.buffer
        while data := os.read(0, 1 << 16) if F("one read is one message") else fd.readline():
            if F("long lines are dropped") and len(data) > 65536:
                continue
            self._line(data)
        if F("it goes on after the end of its input"):
            threading.Event().wait()
        os._exit(0)

    def _line(self, data: bytes) -> None:
        try:
            line = json.loads(data)
        except ValueError:
            if F("a bad line is fatal"):
                os._exit(1)
            code = -32600 if F("what is no JSON is called no request") else -32700
            return self.send({"id": None, "error": {"code": code, "message": "no JSON"}})
        if not isinstance(line, dict):
            if F("a line that is no object is fatal"):
                os._exit(1)
            return self.send({"id": None, "error": {"code": -32600, "message": "no request"}})
        if "method" not in line:
            with self._answers:
                if line.get("id") in self._asked:
                    self._asked[line["id"]] = line
                    self._answers.notify_all()
                elif F("a response that answers nothing is fatal"):
                    os._exit(1)
            return None
        if F("unknown fields are refused") and "xLater" in (line.get("params") or {}):
            return self.send({"id": line["id"], "error": {"code": -32602, "message": "unknown field"}})
        if "id" not in line:
            if F("notifications are answered"):
                self.send({"id": None, "result": {}})
            return self.notices.get(line["method"], lambda params: None)(line.get("params") or {})
        if line["method"] in self.slow:
            threading.Thread(target=self._answer, args=[line], daemon=True).start()
        else:
            self._answer(line)
        return None

    def _answer(self, line: dict[str, Any]) -> None:
        ident = line["id"]
        if F("the id 0 is no id") and ident == 0:
            return
        if F("ids become text"):
            ident = str(ident)
        if F("ids of digits become numbers") and isinstance(ident, str) and ident.isdigit():
            ident = int(ident)
        if F("ids that are text become numbers") and isinstance(ident, str):
            ident = 1
        try:
            if line["method"].startswith("_") and F("methods of extensions are fatal"):
                os._exit(1)
            if line["method"] not in self.methods:
                raise Refused(-32600 if F("an unknown method is an invalid request") else -32601)
            result = self.methods[line["method"]](line.get("params") or {})
            said: dict[str, Any] = {"id": ident, "result": result}
            if F("a result has an error beside it"):
                said["error"] = None
        except Refused as refused:
            if F("an unknown method is fine") and refused.code == -32601:
                said = {"id": ident, "result": {}}
            elif F("an error has no message"):
                said = {"id": ident, "error": {"code": refused.code}}
            elif F("an error's code is text"):
                said = {"id": ident, "error": {"code": "E_REFUSED", "message": refused.message}}
            elif F("an error loses the id"):
                said = {"id": None, "error": {"code": refused.code, "message": refused.message}}
            else:
                said = {"id": ident, "error": {"code": refused.code, "message": refused.message}}
        self.send(said)
        if F("requests are answered twice"):
            self.send(said)
