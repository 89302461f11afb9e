"""Typed answers: an order that wants one offers its agent the tool `give_answer`, and takes what the tool has accepted.

An agent that takes tools of the program that opens its session calls it in this process. One that takes only MCP
servers starts `python -m treadle.fleet.run.typed_answers KIND`, in its own sandbox: that checks and holds nothing,
because the answer is read from the call as the agent reports it, and checked again. Other agents answer in words.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from treadle.drivers.claude.gate import OWN_SERVER, HostedTools
from treadle.errors import RemoteProtocolError, ToolError
from treadle.events import AnyEvent, ToolEnded, ToolStarted
from treadle.io.process.loop import run_async
from treadle.session import OwnTool, SessionSpec
from treadle.wire.common.framing import MessageSplitter
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.goal.verdicts import ANSWER_MAX, FORMS, TOOL, checked, schema_of


class TypedAnswer:
    """The answer of one run."""

    def __init__(self, kind: str, able: Mapping[str, str]) -> None:
        self.kind = kind
        self._able = able
        self._calls: dict[str, Any] = {}
        self.given: Any = None
        """What the latest accepted call says; None while there is none."""

    def offered(self, spec: SessionSpec) -> SessionSpec:
        """The spec with the tool, where the agent takes one."""
        if not self.kind:
            return spec
        if self._able.get("own_tools") == "native":
            program = replace(spec.program, tools=(*spec.program.tools, tool(self.kind)))
            return replace(spec, program=program)
        if self._able.get("servers") == "native":
            server = {"command": sys.executable, "args": ["-P", "-m", __name__, self.kind]}
            return replace(spec, tools=replace(spec.tools, servers={**spec.tools.servers, OWN_SERVER: server}))
        return spec

    def look(self, event: AnyEvent) -> None:
        if not self.kind:
            return
        if isinstance(event, ToolStarted) and TOOL in event.name:
            self._calls[event.call] = event.args
        elif isinstance(event, ToolEnded) and event.call in self._calls:
            args = self._calls.pop(event.call)
            if event.ok:
                try:
                    self.given = _accepted(self.kind, args)
                except RemoteProtocolError:
                    pass  # the tool has told the agent


def tool(kind: str) -> OwnTool:
    async def call(arguments: dict[str, Any]) -> str:
        try:
            _accepted(kind, arguments)
        except RemoteProtocolError as error:
            raise ToolError(f"This was not accepted: {error}. Call {TOOL} again with all of it.") from None
        return "Accepted. You are done; say so in one sentence."

    what = (
        f"Gives your answer ({kind}), which is checked; call it once, when you are done. Mistakes in it are reported."
    )
    return OwnTool(name=TOOL, description=what, parameters=schema_of(kind), call=call)


def _accepted(kind: str, args: Any) -> Any:
    """The answer in a call's arguments. Raises RemoteProtocolError when it is no such answer."""
    try:
        value = loads(args) if isinstance(args, str) else args
    except ValueError as error:
        raise RemoteProtocolError(f"this is not JSON: {error}") from None
    if len(dumps(value)) > ANSWER_MAX:
        raise RemoteProtocolError(f"it is longer than {ANSWER_MAX} characters")
    checked(FORMS[kind], value)
    return value


async def serve(kind: str, source: int = 0, sink: int = 1) -> None:
    """The same tool as an MCP server on standard input and output, until that ends."""
    tools, splitter = HostedTools(), MessageSplitter()
    tools.add((tool(kind),))
    while data := os.read(source, 1 << 16):
        for message in splitter.feed(data):
            if isinstance(message, RemoteProtocolError):
                continue
            try:
                asked = loads(message)
            except ValueError:
                continue
            answer = await tools.answer(OWN_SERVER, asked)
            if isinstance(asked, dict) and "id" in asked:
                view = memoryview(dumps(answer).encode() + b"\n")
                while view:
                    view = view[os.write(sink, view) :]


if __name__ == "__main__":
    run_async(serve(sys.argv[1]))
