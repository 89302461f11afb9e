"""The same conversation line by line, nothing redrawn: for screen readers and terminals without cursor movement."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from treadle.agent.asked import diff_of
from treadle.cli.chat.keys import Actions
from treadle.cli.chat.question import Question, confinement_words
from treadle.cli.chat.touched import touched
from treadle.cli.lines import TypedLines
from treadle.cli.render import printable
from treadle.session import Answer, Session

if TYPE_CHECKING:
    from treadle.cli.chat.page import Page
    from treadle.cli.chat.talk import Picker, Talk

WORDS = {"yes": "y", "session": "s", "always": "a", "no": "n", "": "n"}


class Lines:
    """A View that only appends lines, and reads whole lines while nothing runs."""

    actions: Actions
    _page: Page
    glance = 0.0
    plain = True

    def __init__(self) -> None:
        self.typed = TypedLines()
        self.shown = asyncio.Event()
        self.shown.set()
        self._begun = asyncio.Event()

    def connect(self, talk: Talk) -> None:
        self.actions, self._page = talk, talk.page
        self._begun.set()

    def pickers(self, session: Session, cwd: str) -> dict[str, Picker]:
        """Always None: a list to move around in cannot be read out line by line."""
        return {}

    def print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def changed(self) -> None:
        pass

    def vim(self) -> bool:
        return False

    async def ask(self, question: Question) -> Answer:
        asked = question.asked
        diff = "" if asked.command else diff_of(asked, question.cwd)
        shown = "\n  ".join([question.headline, *([question.why] if question.why else [])])
        if asked.command:
            shown += f"\n  {asked.command}\n  in {question.cwd}\n  {touched(asked.command, question.cwd)}"
        elif asked.kind == "permission" and not diff:
            shown += f"\n  {', '.join(asked.paths) or asked.args or ''}"
        if asked.confined is not None:
            shown += f"\n  {confinement_words(asked.confined)[1]}"
        print(printable(shown))
        if diff:
            print(self._page.diff(diff), end="")
            self._page.seen.add(asked.call)
        for number, option in enumerate(asked.options, 1):
            print(f"  {number}. {printable(option)}")
        if question.want == "words":
            return question.enter(await self.typed.line("answer: ")) or Answer(decision="deny")
        always = f" ({', '.join(map(printable, asked.always))})" if asked.always else ""
        choices = f"allow? [y]es, [n]o, for this [s]ession, [a]lways{always}, or say what to do instead: "
        word = (await self.typed.line(choices, fresh=True)).strip()
        key = WORDS.get(word.lower(), word.lower())
        if key == "n":
            return Answer(decision="deny")
        answer = question.press(key) if len(key) == 1 else None
        return answer or Answer(decision="deny", text=word)

    async def run(self) -> None:
        """Read prompts one at a time until the input ends, and end the conversation then."""
        await self._begun.wait()
        try:
            while True:
                await self.actions.rest()
                self.actions.queue(await self.typed.line("\n> "))
        except EOFError:
            self.actions.leave()

    async def close(self) -> None:
        self.typed.close()
