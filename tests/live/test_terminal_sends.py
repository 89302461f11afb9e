"""Sends at random moments to the real agent programs, which are stopped for up to ten seconds and ask in a third of
their turns."""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.programs import KEY, PROGRAMS, environment, install
from tests.drivers.scenarios import DONE, USED
from tests.terminal.random_sends import Driven, play
from tests.terminal.tally import Tally
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.cli.terminal import NEEDS_A_PERSON
from treadle.drivers.card import cards
from treadle.testing.server import ModelServer, Recorded

SENDS, LONGEST = 30, 10.0
"""Of each program, which makes 200 and more of all."""
AGENTS, EACH = 3, 10
"""How many of a program are driven at once, each with so many sends in a block."""
LOADING = 300.0

ASKING = {
    "claude": ("--permission-mode", "default"),
    "codex": ("--ask-for-approval", "on-request"),
    "qwen": ("--approval-mode", "default"),
}
"""Without this they run a harmless command unasked, or have a model decide."""
ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "May it run outside the sandbox?"}
"""Codex asks only for a command that its model wants to run outside the sandbox."""


NAMES = ("gemini", "claude", "codex", "opencode", "qwen", "kimi", "copilot")


class AnsweringServer(ModelServer):
    """Remembers when each reply was over."""

    def __init__(self, script: Script) -> None:
        super().__init__(script, batch=False)
        self.answered: list[tuple[Recorded, float]] = []

    async def _answer(self, request: Recorded, *streams: Any) -> bool:
        going_on = await super()._answer(request, *streams)
        self.answered.append((request, time.monotonic()))
        return going_on


class RealAgent(Driven):
    """The scripted model is what knows what it was given; the person denies everything, so what runs was approved."""

    ANSWER = b"\x1b"
    PAUSES = (0, 1, 5, 10, 20)

    def __init__(self, kind: str, number: int, seed: int, directory: Path, home: Path, server: AnsweringServer) -> None:
        self.wanted, self.home, self.server, self.work = kind, home, server, directory / f"work{number}"
        self.work.mkdir(parents=True)
        super().__init__(number, seed, LONGEST, directory)

    def program(self, seed: int) -> list[str]:
        self.kind = self.wanted
        self.env = env = {**environment(self.kind, self.home, self.server.url), "TERM": "xterm-256color"}
        if self.kind == "claude":
            trust = {str(self.work): {"hasTrustDialogAccepted": True}}
            asked = {
                "hasCompletedOnboarding": True,
                "projects": trust,
                "customApiKeyResponses": {"approved": [KEY[-20:]]},
            }
            (self.home / "claude").mkdir()
            (self.home / "claude" / ".claude.json").write_text(json.dumps(asked))
        command = str(install(self.kind) / cards()[self.kind].program)
        given = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        return ["--workdir", str(self.work), *given, "--", command, *ASKING.get(self.kind, ())]

    def load(self) -> None:
        """Wait until it can be given a prompt, and trust the folder if it asks about that."""
        deadline = time.monotonic() + LOADING
        while (code := self.run("wait", self.name, "--state", "idle", "--timeout", "60")[0]) and code != 1:
            assert time.monotonic() < deadline, f"{self.kind} is not idle after {LOADING:g} s"
            if code == NEEDS_A_PERSON:
                self.run("send", self.name, "--answer", "\\r")
        assert code == 0, f"{self.kind} has ended"

    def text(self, number: int) -> str:
        return f"do {'ask' if self.chance.random() < 0.33 else 'say'} {number:04}."

    def truth(self) -> tuple[list[str], dict[str, float], dict[str, float]]:
        found = ["Enter approved a command"] if (self.work / "approved.txt").exists() else []
        given: dict[str, float] = {}
        for request in self.server.asked:
            for text in strings(request.body):
                tokens = [token for token in self.sent if token in text]
                if len(tokens) > 1 and len(text) < 200:
                    given[text] = 0.0  # two in one
                given |= dict.fromkeys(tokens, 0.0)
        over: dict[str, float] = {}
        for request, when in self.server.answered:
            if not request.body.get("tools"):
                continue  # it asks for a title
            newest = [token for text in strings(request.body) for token in self.sent if token in text][-1:]
            over |= {token: over.get(token, when) for token in newest}
        return found, given, over


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in strings(part)]


@pytest.mark.parametrize("name", NAMES)
async def test_no_send_approves_joins_or_misstates(name: str, tmp_path: Path, tmp_path_factory: Any) -> None:
    tool, arguments = PROGRAMS[name].tools.shell("touch approved.txt")
    if name == "codex":
        arguments |= ESCALATED
    call = CallLine(name=tool, arguments=arguments, id="call_1")
    asking = ScriptedReply(when=r"do ask \d+", call=(call,), times="always", usage=USED)
    slowly = ScriptedReply(when=r"do say \d*[13579]\.", text=DONE, delay=3, times="always", usage=USED)
    saying = ScriptedReply(text=DONE, times="always", usage=USED)

    async def block(seed: int) -> dict[str, Any]:
        async with AsyncExitStack() as servers:
            agents = []
            for number in range(AGENTS):
                server = AnsweringServer(Script(reply=(asking, slowly, saying)))
                await servers.enter_async_context(server)
                home = tmp_path_factory.mktemp("home")
                own = 100 * NAMES.index(name) + seed  # else all programs would get the same moments
                agent = await asyncio.to_thread(RealAgent, name, number, own, tmp_path / str(seed), home, server)
                agents.append(agent)
            await asyncio.gather(*(asyncio.to_thread(agent.load) for agent in agents))
            return await asyncio.to_thread(play, agents, AGENTS * EACH)

    loop = asyncio.get_running_loop()
    fill = Tally(f"terminals-{name}").fill
    found = await asyncio.to_thread(
        fill, SENDS, lambda number: asyncio.run_coroutine_threadsafe(block(number), loop).result()
    )
    print(name, time.strftime("%H:%M"), found, sep="\n")
    assert ", 0 violations" in found
