"""Prompts of all kinds are taken by the real agents exactly as they were sent, or refused with the reason, at any width
of the terminal; none is run by a shell."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.scenarios import DONE, USED
from tests.live.test_terminal_sends import NAMES, AnsweringServer, RealAgent, strings
from tests.terminal.support import connected
from treadle.agent.providers.script import Script, ScriptedReply

WIDTHS = (40, 80, 200)
PROMPTS = (
    "tidy up, please",
    "refactor the parser so that it reads several lines, and then run all of the tests in the repository again",
    "three\nshort\nlines",
    "first a paragraph\n\nthen another one after an empty line",
    "why does this fail?\n\ndef f(x):\n    if x:\n        return {'a': 1}\n    return [2]",
    "日本語の長い文章を入力しても正しく読み取れることを確かめる。これはとても大切です。",
    "naïve café — “quotes” and an emoji 🌑 in the text",
    "## A heading\n\n- one\n- two `code`\n\n> a quotation",
    "- the first point\n- the second point",
    "> quoted before it is answered",
    "* starred",
    "1. the first step\n2. the second step",
    "`ls -l` prints too much",
    r"a path C:\new\table and a regex \d+\b are literal",
    "x" * 190,
    "one word after the other " * 30 + "and the end",
    "!touch run-as-shell.txt",
    "/srv/work is full: remove what is old",
    "#42 is the issue to fix",
    "@everyone reads this",
)


class Sized(RealAgent):
    def __init__(self, cols: int, *more: Any) -> None:
        self.SIZE = (cols, 40)
        super().__init__(*more)

    def sends(self) -> dict[str, int]:
        """How many prompts were taken, refused, lost or changed, and run; the last two with the prompt."""
        self.load()
        found: dict[str, int] = {}
        for text in PROMPTS:
            before = len(self.server.asked)
            code, said = self.run("send", self.name, text, "--wait", "--timeout", "90", "--replace")
            given = [each for asked in self.server.asked[before:] for each in strings(asked.body)]
            taken = any(text.strip() in each for each in given)
            what = "taken" if taken and code == 0 else "refused" if code in (3, 4) and said and not taken else ""
            found_as = what or f"WRONG {code} {text[:30]!r} {said.strip()[:160]}"
            found[found_as] = found.get(found_as, 0) + 1
            if not what:
                with connected(self.place) as client:
                    print(f"{self.kind} {self.SIZE[0]}: {text[:30]!r}\n{client.explain()['screen']}", flush=True)
            if what == "refused":
                print(f"{self.kind} {self.SIZE[0]}: {text[:30]!r} {said.strip().splitlines()[0][:150]}", flush=True)
                if "nothing was typed" not in said:  # else Esc may become one key with what is typed next
                    self.run("send", self.name, r"\e", "--escapes", "--anyway")
        if (self.work / "run-as-shell.txt").exists():
            found["WRONG run as shell"] = 1
        return found


@pytest.mark.parametrize("name", NAMES)
async def test_every_prompt_is_taken_exactly_or_refused(name: str, tmp_path: Path, tmp_path_factory: Any) -> None:
    async def at(cols: int, number: int) -> dict[str, int]:
        done = ScriptedReply(text=DONE, times="always", usage=USED)
        async with AnsweringServer(Script(reply=(done,))) as server:
            home = tmp_path_factory.mktemp("home")
            where = tmp_path / str(cols)
            agent = await asyncio.to_thread(Sized, cols, name, number, 0, where, home, server)
            try:
                return await asyncio.to_thread(agent.sends)
            finally:
                await asyncio.to_thread(agent.run, "kill", agent.name, "--grace", "0")

    found = await asyncio.gather(*(at(cols, number) for number, cols in enumerate(WIDTHS)))
    print(name, time.strftime("%H:%M"), dict(zip(WIDTHS, found, strict=True)), sep="\n")
    assert not [what for each in found for what in each if what.startswith("WRONG")], found
