"""Runs a check so that the work does not decide how it ends, and says what is known then."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from treadle.verification import canary
from treadle.verification.counts import counted
from treadle.verification.evidence import CanaryResult, CheckEvidence, Corner, CornerResult, Ended, word_for
from treadle.verification.judge import Divided, divide, judge_for
from treadle.workspace.store import Store


class Ran(Protocol):
    """How a command ended."""

    @property
    def ok(self) -> bool: ...
    @property
    def output_tail(self) -> str: ...


R = TypeVar("R", bound=Ran)


class Verified(NamedTuple, Generic[R]):
    """What came of it: `main` is the run that decides, whose output a person or agent is shown."""

    evidence: CheckEvidence
    main: R


class Checking(Generic[R]):
    """One check of one change. `run` runs the set-up and the command in a fresh directory that has the files of a
    tree. `inside` is the directory that the command runs in, relative to the top."""

    def __init__(
        self,
        store: Store,
        command: str,
        run: Callable[[str], Awaitable[R]],
        *,
        inside: str = "",
        may_change: Sequence[str] = (),
        prove: bool = False,
    ) -> None:
        self._store = store
        self._command = command
        self._run = run
        self._inside = inside
        self._may_change = may_change
        self._prove = prove
        self._corners: list[CornerResult] = []

    async def verify(self, base: str, work: str) -> Verified[R]:
        """Check what the tree `work` changes of the tree `base`."""
        divided = await asyncio.to_thread(self._divide, base, work)
        main = shown = await self._corner("old judge", divided.checked)
        if divided.judge:
            own = await self._corner("work", work)
            shown = own if main.ok and not own.ok else main
            if main.ok and own.ok and divided.with_tests:
                await self._corner("old product", divided.judged)
        canaries: list[CanaryResult] = []
        if main.ok:
            canaries = await self._canaries(divided.checked, base)
            if self._prove:
                await self._corner("base", base)
        word, why = word_for(self._corners, canaries)
        evidence = CheckEvidence(
            command=self._command,
            base=base,
            tree=work,
            word=word,
            why=why,
            product=divided.product,
            judge=divided.judge,
            allowed=divided.allowed,
            doubtful=divided.doubtful,
            corners=tuple(self._corners),
            canaries=tuple(canaries),
            not_checked=tuple(self._not_checked(canaries)),
        )
        return Verified(evidence, shown)

    def _divide(self, base: str, work: str) -> Divided:
        judge = judge_for(self._store, base, self._command, inside=self._inside, may_change=self._may_change)
        return divide(self._store, base, work, judge)

    async def _corner(self, corner: Corner, tree: str) -> R:
        begun = time.monotonic()
        done = await self._run(tree)
        self._corners.append(
            CornerResult(
                corner=corner,
                tree=tree,
                ended="green" if done.ok else "red",
                counts=counted(done.output_tail),
                seconds=round(time.monotonic() - begun, 3),
            )
        )
        return done

    async def _canaries(self, tree: str, base: str) -> list[CanaryResult]:
        """Each canary on the tree; one that is not noticed also on the base, for a check may never load the tests."""
        planted = await asyncio.to_thread(canary.trees, self._store, tree)
        ends = await asyncio.gather(*(self._run(one.tree) for one in planted.values()))
        found = []
        for (kind, one), done in zip(planted.items(), ends, strict=True):
            on_base: Ended | None = None
            if done.ok and (before := await asyncio.to_thread(canary.plant, self._store, base, kind)) is not None:
                there = await self._run(before.tree)
                # A base that is red for another reason says nothing about the canary.
                noticed = not there.ok and before.mark in there.output_tail
                on_base = "red" if noticed else "green"
            found.append(CanaryResult(kind=kind, files=one.files, ended="green" if done.ok else "red", on_base=on_base))
        return found

    def _not_checked(self, canaries: list[CanaryResult]) -> list[str]:
        missing = []
        if not canaries:
            missing.append("whether the check can fail: no test file is of a kind that we can add a failing test to")
        elif all(each.ended == "green" for each in canaries):
            missing.append("whether the check can fail: it does not run the test files")
        if all(each.counts is None for each in self._corners):
            missing.append("how many tests ran: the runner is unknown")
        if all(each.corner != "base" for each in self._corners):
            missing.append("whether the check failed before the work")
        return missing
