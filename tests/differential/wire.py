"""Speaks to one of the two programs over its pipes, without an SDK between: what the types name and no SDK sends."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.differential.driving import Seen, program_of, variables
from treadle.agent.providers.script import parse
from treadle.testing.server import ModelServer

PATIENCE = 150.0
STREAM = ("-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose")
LIMIT = 1 << 24


class EndedEarly(Exception):
    """It ended before it answered; `said` has its last words."""


class Spoken(Seen):
    """The program as a process: what it wrote, line by line, and what its hooks were told."""

    process: asyncio.subprocess.Process

    def __init__(self, program: str, home: Path) -> None:
        super().__init__(program, home)
        self.lines: list[dict[str, Any]] = []
        self.hooked: list[dict[str, Any]] = []
        """Input of each call of a hook, in order."""
        self.asked: list[dict[str, Any]] = []
        """Permission questions."""
        self.answers: dict[str, dict[str, Any]] = {}
        """What hooks answer, by event; nothing said: an empty object."""
        self.permits = True
        self.changed = asyncio.Condition()
        self.over = False
        """Whether it has closed its output."""

    async def read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            try:
                record = json.loads(line)
            except ValueError:
                self.said.append(line.decode(errors="replace"))
                continue
            async with self.changed:
                self.lines.append(record)
                self.changed.notify_all()
            if record.get("type") == "control_request":
                await self.reply(record)
        async with self.changed:
            self.over = True
            self.changed.notify_all()

    async def read_errors(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.said.append(line.decode(errors="replace"))

    async def reply(self, record: dict[str, Any]) -> None:
        request = record["request"]
        answer: dict[str, Any] = {}
        if request["subtype"] == "hook_callback":
            self.hooked.append(request["input"])
            answer = self.answers.get(request["input"]["hook_event_name"], {})
        elif request["subtype"] == "can_use_tool":
            self.asked.append(request)
            answer = {"behavior": "allow", "updatedInput": request["input"]}
            if not self.permits:
                answer = {"behavior": "deny", "message": "no"}
        response = {"subtype": "success", "request_id": record["request_id"], "response": answer}
        with suppress(ConnectionError):  # it may ask a last hook when its input has ended
            await self.send({"type": "control_response", "response": response})

    async def send(self, record: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(record).encode() + b"\n")
        await self.process.stdin.drain()

    async def until(self, found: Any) -> Any:
        """The first line of which `found` is true, also of those that were there before."""
        async with asyncio.timeout(PATIENCE), self.changed:
            while True:
                for line in self.lines:
                    if found(line):
                        return line
                if self.over:
                    raise EndedEarly("the program has ended")
                await self.changed.wait()

    async def request(self, subtype: str, **fields: Any) -> dict[str, Any]:
        """Its response: `subtype` success or error."""
        known = f"r{len(self.lines)}-{subtype}"
        await self.send({"type": "control_request", "request_id": known, "request": {"subtype": subtype, **fields}})
        line = await self.until(
            lambda one: one.get("type") == "control_response" and one["response"].get("request_id") == known
        )
        return dict(line["response"])

    async def prompt(self, text: str, **more: Any) -> dict[str, Any]:
        """The result of one turn."""
        before = sum(line.get("type") == "result" for line in self.lines)
        await self.send({"type": "user", "message": {"role": "user", "content": text}, **more})

        def ended(line: dict[str, Any]) -> bool:
            results = [one for one in self.lines if one.get("type") == "result"]
            return len(results) > before and line is results[before]

        return dict(await self.until(ended))

    @property
    def last_result(self) -> dict[str, Any]:
        """The last result; empty when there is none."""
        return (self.wrote("result") or [{}])[-1]

    def wrote(self, kind: str) -> list[dict[str, Any]]:
        """The lines of a `type`, or `type/subtype`."""
        wanted, _, subtype = kind.partition("/")
        return [line for line in self.lines if line.get("type") == wanted and subtype in ("", str(line.get("subtype")))]


@asynccontextmanager
async def spoken(
    program: str,
    home: Path,
    script: str,
    *flags: str,
    files: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
    stream: Sequence[str] = STREAM,
) -> AsyncIterator[Spoken]:
    """The program, running; ended at the end of its input."""
    seen = Spoken(program, home)
    seen.place(files or {})
    given = [flag.replace("{work}", str(seen.work)).replace("{home}", str(seen.home)) for flag in flags]
    async with ModelServer(parse(script.replace("{work}", str(seen.work)))) as server:
        seen.process = await asyncio.create_subprocess_exec(
            *(program_of(program), *stream, *given),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=seen.work,
            env={**variables(seen, server.url), **(env or {})},
            limit=LIMIT,
        )
        reading = [asyncio.create_task(seen.read()), asyncio.create_task(seen.read_errors())]
        try:
            with suppress(EndedEarly):
                yield seen
            assert seen.process.stdin is not None
            with suppress(ConnectionError):
                seen.process.stdin.close()
            async with asyncio.timeout(PATIENCE):
                await seen.process.wait()
                await asyncio.gather(*reading)
        finally:
            if seen.process.returncode is None:
                seen.process.kill()
                await seen.process.wait()
            for task in reading:
                task.cancel()
            seen.told = [request.body for request in server.asked if isinstance(request.body, dict)]
