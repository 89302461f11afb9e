"""An agent's questions as records that anybody may answer: a rule given beforehand, a person, or the deadline."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from treadle.agent.question import diff_of, headline, reason
from treadle.errors import TreadleError
from treadle.events import Asked
from treadle.fleet.engine.bus import STATE, Stale, Unreachable
from treadle.fleet.engine.streams import Pull
from treadle.fleet.orders import encode, read_answer, read_order
from treadle.fleet.run.attempt import RunningAttempt
from treadle.io.paths import DISK
from treadle.io.tasks import start_held
from treadle.policy.rules import RuleSet
from treadle.session import Access, Answer, Rules
from treadle.wire.fleet import keys
from treadle.wire.fleet.messages import RunAsked, RunResumed
from treadle.wire.fleet.records import AgentQuestion, AnswerRecord, TakenRecord


class Questions:
    def __init__(
        self,
        attempt: RunningAttempt,
        answer: Callable[[str, Answer], Awaitable[None]],
        park: Callable[[], Awaitable[None]],
    ) -> None:
        self._attempt = attempt
        self._answer = answer
        self._give_back = park
        self.given: list[dict[str, Any]] = []
        """Who answered what and when, for the receipt."""
        self.open: dict[str, Asked] = {}
        self._numbers: dict[str, asyncio.Future[str]] = {}
        self._count = 0
        self._left_open = attempt.order.open_ask
        self._tasks: set[asyncio.Task[None]] = set()

    def numbered(self, request: str, key: str) -> None:
        """The scheduler has stored the question under this key."""
        waiting = self._numbers.get(request)
        if waiting is not None and not waiting.done():
            waiting.set_result(key)

    def ask(self, asked: Asked) -> None:
        start_held(self._tasks, self._settle_question(asked))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _settle_question(self, asked: Asked) -> None:
        answer = self._by_rule(asked)
        if answer is None:
            self.open[asked.request] = asked
            try:
                answer = await self._ask_people(asked)
            finally:
                self.open.pop(asked.request, None)
        self._note(asked.text, asked.name, asked.command, answer)
        try:
            await self._answer(asked.request, answer)
        except TreadleError:
            pass  # the agent no longer waits for it

    def _note(self, text: str, tool: str | None, command: str | None, answer: Answer) -> None:
        asked = {"text": text, "tool": tool, "command": command, "decision": answer.decision}
        self.given.append({**asked, "by": answer.by, "said": answer.text, "at": time.time()})

    async def settle(self, content: AgentQuestion) -> Answer:
        """Ask people something that is no event of a session. Cancelled when it is over without their answer."""
        try:
            answer = await self._put(content)
        except asyncio.CancelledError:
            await self._attempt.report(RunResumed, number=content.request, nth=self._count)
            raise
        self._note(content.words, content.tool, None, answer)
        return answer

    def _by_rule(self, asked: Asked) -> Answer | None:
        """The answer of the first matching rule; deny rules come first."""
        spec = self._attempt.spec
        access = Access(
            tool=asked.name or "", kind=asked.tool_kind, paths=asked.paths, command=asked.command, args=asked.args
        )
        for verdict in ("deny", "allow"):
            words = tuple(rule.partition(" ")[2] for rule in spec.rules if rule.partition(" ")[0] == verdict)
            if not words:
                continue
            rules = RuleSet(Rules(**{verdict: words}), self._attempt.root, DISK)
            decision = rules.judge(access)
            if decision is not None and decision.verdict == verdict:
                return Answer(
                    decision="allow" if verdict == "allow" else "deny", by=f"rule {verdict}", text=decision.reason
                )
        return None

    async def _ask_people(self, asked: Asked) -> Answer:
        spec, root = self._attempt.spec, self._attempt.root
        content = AgentQuestion(
            request=asked.request,
            kind=asked.kind,
            text=asked.text,
            headline=headline(asked, root),
            why=reason(asked, root),
            diff=await asyncio.to_thread(_diff, asked, root),
            confined=asked.confined and asked.confined.replace(os.path.realpath(root), "its worktree"),
            tool=asked.name,
            tool_kind=asked.tool_kind,
            paths=asked.paths,
            command=asked.command,
            options=list(asked.options),
            always=list(asked.always),
            claims=spec.claims,
            mode=spec.mode,
            args=asked.args,
        )
        return await self._put(content)

    async def _put(self, content: AgentQuestion) -> Answer:
        """Report the question and wait for the answer that counts."""
        spec, request = self._attempt.spec, str(content.request)
        number = self._numbers[request] = asyncio.get_running_loop().create_future()
        again = await self._asked_before(content)
        self._count += 1
        nth = self._count
        await self._attempt.report(RunAsked, ask=content, number=request, again=again, nth=nth)
        key = again or await self._key(number)
        parking = asyncio.create_task(self._park(key)) if spec.park is not None and self._attempt.can_resume else None
        try:
            answer = await self._answered(key)
        finally:
            if parking is not None:
                parking.cancel()
        await self._attempt.report(RunResumed, number=request, nth=nth)
        return Answer(decision=answer.decision, text=answer.text, scope=answer.scope, by=answer.by)

    async def _asked_before(self, content: AgentQuestion) -> str:
        """The key of the question that was open when the earlier attempt ended, if this is the same one."""
        key, self._left_open = self._left_open, ""
        entry = await self._attempt.bus.get(keys.ASK(key)) if key else None
        if entry is None:
            return ""
        before = keys.ASK.read(entry.value, entry.key)
        same = all(getattr(before, name) == getattr(content, name) for name in ("kind", "tool", "command", "text"))
        return key if same else ""

    async def forget(self) -> None:
        """The agent starts over, so the earlier attempt's question is no longer its own."""
        if self._left_open:
            self._left_open = ""
            await self._attempt.report(RunResumed, number="before")

    async def before(self) -> str:
        """What the agent is told about the question it had asked when it was cut off."""
        key = self._left_open
        ask = await self._attempt.bus.get(keys.ASK(key)) if key else None
        given = await self._given_to(key) if ask else None
        if ask is None or given is None:
            return ""
        asked = keys.ASK.read(ask.value, ask.key)
        what = asked.command or asked.text or asked.tool
        words = f" with the words: {given.text}" if given.text else ""
        if given.decision == "allow":
            return f"You had asked for permission: {what}. It was given{words}. Do it now if it is still needed."
        return f"You had asked for permission: {what}. It was refused{words}. Do without it."

    async def _given_to(self, key: str) -> AnswerRecord | None:
        entry = await self._attempt.bus.get(keys.ANSWER(key))
        given = read_answer(entry.value, entry.key) if entry else None
        return given if given and given.stands else None

    async def _park(self, key: str) -> None:
        """Give the slot back when no one answers for a while; the session continues when someone has."""
        await asyncio.sleep(self._attempt.spec.park or 0.0)
        while await self._given_to(key):  # it is about to be taken, or withdrawn
            await asyncio.sleep(0.1)
        await self._give_back()

    async def _key(self, number: asyncio.Future[str]) -> str:
        """The key, as the scheduler sent it; looked up if that message was lost."""
        name = self._attempt.spec.id
        while True:
            try:
                async with asyncio.timeout(1.0):
                    return await asyncio.shield(number)
            except TimeoutError:
                pass
            try:
                entry = await self._attempt.bus.get(keys.ORDER(name))
            except Unreachable:
                continue
            found = read_order(entry) if entry else None
            if found is not None and found.open_ask and found.attempt == self._attempt.order.attempt:
                return found.open_ask

    async def _take(self, key: str, revision: int) -> bool:
        """Take this answer for good. False when the one who gave it has withdrawn it."""
        order, bus = self._attempt.order, self._attempt.bus
        mine = encode(TakenRecord(by=order.node, attempt=order.attempt))
        while True:
            try:
                await bus.put(keys.TAKEN(key, revision), mine, expect=0)
                return True
            except Stale:
                # Either ours, from a try whose reply was lost, or of the earlier attempt, which did not get to act on
                # it.
                entry = await bus.get(keys.TAKEN(key, revision))
                return entry is not None and not keys.TAKEN.read(entry.value, entry.key).withdrawn
            except Unreachable:
                await asyncio.sleep(0.2)

    async def _answered(self, key: str) -> AnswerRecord:
        bus = self._attempt.bus
        pull = Pull(bus, STATE, filters=(keys.ANSWER.subject(key),))
        try:
            while True:
                for message in await pull.next(30.0):
                    found: AnswerRecord = read_answer(message.data, message.subject)
                    if found.stands and await self._take(key, message.metadata.sequence.stream):
                        return found
        finally:
            await pull.close()


def _diff(asked: Asked, root: str) -> str:
    """What an edit inside the worktree would change. Other files may hold what watchers must not see."""
    top = os.path.realpath(root)
    inside = [os.path.realpath(os.path.join(root, path)).startswith(top + os.sep) for path in asked.paths]
    return diff_of(asked, root) if inside and all(inside) and not asked.command else ""
