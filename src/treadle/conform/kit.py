"""Clauses of a specification, and how they are tried.

Each one starts the program anew, in an empty directory, with a scripted model.
"""

import contextlib
import os
import time
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec

from treadle.agent.providers.script import ErrorLine, parse
from treadle.conform.lines import LinePeer, Silent, shown
from treadle.conform.shapes import ShapeWatch
from treadle.errors import TreadleError
from treadle.io import scratch
from treadle.io.process.child import start
from treadle.io.tasks import within
from treadle.testing.server import ModelServer

ANSWER = "Said by the model."
PLAIN = f'[[reply]]\ntext = "{ANSWER}"\ntimes = "always"\nusage = {{ input = 20, output = 6 }}\n'
"""The script of a model that always answers the same."""
Opened = TypeVar("Opened")
Outcome = Literal["kept", "broken", "untried"]


class Broken(Exception):
    """The program did not keep what the clause is about. The text says what was seen."""


class Untried(Exception):
    """The clause does not apply to this program. The text says why."""


class Once(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the program from its start to its end."""

    code: int
    output: str
    errors: str
    requests: list[Any]
    """What the model was asked."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """The program that is judged, and how it is started."""

    command: tuple[str, ...]
    env: Mapping[str, str] = {}
    model: str = "conform/model"
    patience: float = 30.0
    """Seconds that it has for each answer."""
    watch: ShapeWatch = msgspec.field(default_factory=ShapeWatch)

    @contextlib.asynccontextmanager
    async def started(
        self,
        script: str = PLAIN,
        *,
        arguments: Sequence[str] = (),
        faults: Sequence[ErrorLine] = (),
        env: Mapping[str, str] | None = None,
        repository: bool = False,
    ) -> AsyncIterator[LinePeer]:
        """The program, running in an empty directory or `repository`, pointed at a model that plays `script`."""
        async with ModelServer(parse(script), faults=faults) as server:
            with scratch.directory("conform") as directory:
                if repository:
                    async with await start(["git", "init", "-q"], cwd=directory) as git:
                        await git.wait()
                pointed = {**pointed_at(server.url), **self.env, **(env or {})}
                if repository:  # a ledger that would otherwise keep its files beside its own program
                    pointed["HEIMDALL_PLANNING_DIR"] = os.path.join(directory, ".planning")
                words = (*self.command, *arguments)
                again = partial(LinePeer.start, words, pointed, directory, self.patience, self.watch)
                async with again() as peer:
                    peer.model, peer.model_name, peer.again = server, self.model, again
                    yield peer

    async def once(
        self, arguments: Sequence[str], *, script: str = PLAIN, stdin: bytes = b"", interrupt: int | None = None
    ) -> Once:
        """Run the program to its end with these arguments; with `interrupt`, send it that once it has asked."""
        async with self.started(script, arguments=arguments) as peer:
            if stdin:
                await peer.write(stdin)
            peer.close_input()
            if interrupt is not None:
                await asked(peer)
                peer.signal(interrupt)
            code, output, errors = await peer.whole()
            return Once(code=code, output=output, errors=errors, requests=[one.body for one in peer.model.asked])


def started(candidate: Candidate, *args: Any, **more: Any) -> contextlib.AbstractAsyncContextManager[LinePeer]:
    """As the candidate itself is started: for `Kit.opening`."""
    return candidate.started(*args, **more)


async def asked(peer: LinePeer) -> None:
    """Wait until the program has asked its model."""
    try:
        async with within(peer.patience):
            await peer.model.arrived(1)
    except TimeoutError as error:
        raise Untried("it did not ask the model that it was pointed at") from error


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence of a specification, and what shows whether a program keeps it."""

    sentence: str
    section: str
    run: Callable[[Candidate], Awaitable[str]]
    """Returns what was seen; raises Broken, or Untried."""


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """The clauses of one protocol, and the specification that they are taken from."""

    protocol: str
    specification: str
    clauses: list[Clause]

    def clause(self, section: str, sentence: str) -> Callable[[Callable[[Candidate], Awaitable[str]]], None]:
        def add(run: Callable[[Candidate], Awaitable[str]]) -> None:
            self.clauses.append(Clause(sentence=sentence, section=section, run=run))

        return add

    def opening(
        self, opened: Callable[..., contextlib.AbstractAsyncContextManager[Opened]]
    ) -> Callable[..., Callable[[Callable[[Opened], Awaitable[str]]], None]]:
        """Like `clause`, for clauses that begin alike: each gets what is opened with the rest of its arguments."""

        def clause(
            section: str, sentence: str, *args: Any, **more: Any
        ) -> Callable[[Callable[[Opened], Awaitable[str]]], None]:
            def add(body: Callable[[Opened], Awaitable[str]]) -> None:
                @self.clause(section, sentence)
                async def _(candidate: Candidate) -> str:
                    async with opened(candidate, *args, **more) as found:
                        return await body(found)

            return add

        return clause


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one clause."""

    sentence: str
    section: str
    outcome: Outcome
    seen: str
    seconds: float


def expect(holds: bool, line: Any, why: str) -> None:
    """Raise Broken, with the line that shows it, unless it holds."""
    if not holds:
        raise Broken(f"{why}: {shown(line)}")


def integers(found: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether those of these fields that are there are whole numbers. True is not one."""
    return all(type(found[name]) is int and found[name] >= 0 for name in names if found.get(name) is not None)


async def judge(
    kit: Kit, candidate: Candidate, *, only: str = "", tell: Callable[[Ruling], None] | None = None
) -> list[Ruling]:
    """Try the clauses one after the other; `tell` is called with each ruling as it comes. Of a program that says
    nothing at all in the first, the others are not tried: each would cost its time-out and say the same."""
    rulings: list[Ruling] = []
    dead = False
    candidate = msgspec.structs.replace(candidate, watch=ShapeWatch(kit.protocol))
    for clause in kit.clauses:
        if only.lower() in f"{clause.section} {clause.sentence}".lower():
            ruling, silent = await _ruling(_not_tried(clause) if dead else clause, candidate)
            dead = dead or (silent and not rulings)
            rulings.append(ruling)
            if tell is not None:
                tell(ruling)
    return rulings


def _not_tried(clause: Clause) -> Clause:
    async def run(candidate: Candidate) -> str:
        raise Untried("it did not answer the first request")

    return msgspec.structs.replace(clause, run=run)


async def _ruling(clause: Clause, candidate: Candidate) -> tuple[Ruling, bool]:
    """And whether the program said nothing at all."""
    began = time.monotonic()
    outcome: Outcome
    silent = False
    candidate.watch.fresh.clear()
    try:
        outcome, seen = "kept", await clause.run(candidate)
    except Untried as error:
        outcome, seen = "untried", str(error)
    except (Broken, TreadleError) as error:
        outcome, seen, silent = "broken", str(error), isinstance(error, Silent)
    except TimeoutError:
        outcome, seen = "broken", f"nothing came within {candidate.patience:g} s"
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # What keeps to the published schema and cannot be read all the same is a fault of ours.
        outcome = "untried" if candidate.watch.judges and not candidate.watch.fresh else "broken"
        why = "; ".join(dict.fromkeys(candidate.watch.fresh)) or f"{type(error).__name__}: {error}"
        seen = f"the kit cannot read what it sent: {why}"
    seconds = round(time.monotonic() - began, 3)
    ruling = Ruling(sentence=clause.sentence, section=clause.section, outcome=outcome, seen=seen, seconds=seconds)
    return ruling, silent


def pointed_at(url: str) -> dict[str, str]:
    """The variables by which programs are pointed at a model service of one's own."""
    key = "conform"
    return {
        **dict.fromkeys(("HEDDLE_BASE_URL", "OPENAI_BASE_URL", "OPENROUTER_BASE_URL"), f"{url}/v1"),
        **dict.fromkeys(("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"), url),
        **dict.fromkeys(("OPENROUTER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), key),
    }


# What a kit found, for people and for programs: lines, JSON, JUnit, a table of several programs.


def counts(rulings: Sequence[Ruling]) -> tuple[int, int, int]:
    """How many clauses were kept, broken and not tried."""
    found = [ruling.outcome for ruling in rulings]
    return found.count("kept"), found.count("broken"), found.count("untried")


def summary(kit: Kit, rulings: Sequence[Ruling]) -> str:
    passed, broken, untried = counts(rulings)
    left = f", {untried} not tried" if untried else ""
    return f"{kit.protocol}: {passed} of {passed + broken} clauses kept{left}"


def as_data(kit: Kit, name: str, rulings: Sequence[Ruling]) -> dict[str, Any]:
    passed, broken, untried = counts(rulings)
    return {
        "protocol": kit.protocol,
        "specification": kit.specification,
        "candidate": name,
        "kept": passed,
        "broken": broken,
        "untried": untried,
        "clauses": rulings,
    }


def junit(kit: Kit, name: str, rulings: Sequence[Ruling]) -> bytes:
    _, broken, untried = counts(rulings)
    about = {"tests": len(rulings), "failures": broken, "skipped": untried}
    suite = ET.Element(
        "testsuite", {"name": f"{kit.protocol}: {name}"} | {key: str(value) for key, value in about.items()}
    )
    for ruling in rulings:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"{kit.protocol}.{ruling.section}",
            name=ruling.sentence,
            time=str(ruling.seconds),
        )
        if ruling.outcome == "broken":
            ET.SubElement(case, "failure", message=_plain(ruling.seen))
        elif ruling.outcome == "untried":
            ET.SubElement(case, "skipped", message=_plain(ruling.seen))
    text: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text


def table(kit: Kit, found: dict[str, Sequence[Ruling]]) -> str:
    """Several programs side by side, in Markdown."""
    marks = {"kept": "yes", "broken": "**no**", "untried": "-"}
    names = list(found)
    rows = [f"| {kit.protocol} | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    passed = (counts(found[name]) for name in names)
    rows.append(f"| clauses kept | {' | '.join(f'{some} of {some + broken}' for some, broken, _ in passed)} |")
    for together in zip(*found.values(), strict=True):
        rows.append(f"| {together[0].sentence} | {' | '.join(marks[ruling.outcome] for ruling in together)} |")
    return "\n".join(rows) + "\n"


def _plain(text: str) -> str:
    """Without the control characters that XML has no form for."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
