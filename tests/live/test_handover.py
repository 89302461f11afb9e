"""A task goes from one real program to another: the first is ended, and the second finishes what that began."""

import json
import os
import time
from pathlib import Path

import msgspec
import pytest

from tests.drivers.programs import PROGRAMS, environment
from tests.drivers.scenarios import Scenario, Tools, go_through
from tests.e2e.test_usage_limit import DAYS, typed
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import git
from tests.live.agents import agent
from tests.live.test_matrix import OURS
from tests.waiting import until
from treadle.agent.providers.script import CallLine, Script, ScriptedReply, UsageLine
from treadle.agents import find_agent, wrapped
from treadle.io.process import table
from treadle.redact import Redactor
from treadle.session import Agent, SessionSpec, Start
from treadle.sessions.handover import Gathering
from treadle.sessions.tokens import estimate
from treadle.testing.server import ModelServer, parse

NAMES = ["native", *PROGRAMS]
PAIRS = [(before, NAMES[(at + step) % len(NAMES)]) for step in (1, 2) for at, before in enumerate(NAMES)]
"""Each is twice the first and twice the second."""
PROMPTS = (
    "[[begin]] Build the settings page. Its name is Kestrel, on port 4711: legacy/ stays untouched, and no new"
    " dependencies. Ask Marisol about the colours.",
    "[[count]] Now count.",
    "[[write]] Then write it.",
    "[[half]] Use tabs, not spaces, and keep the old names: the release is on Friday.",
)
SUMMARY = "[[summary]] Summarise the work so far for another agent, which takes over."
"""What the first one would be asked where there is no handover. What it would answer is the model's."""
SAID = (
    "I chose YAML because JSON has no comments. I use asyncio instead of threads.",
    "Note that half of odd.cfg is in Latin-1. It turns out that the cache cannot be shared.",
    "I go on, assuming the clock is UTC. The tests must not touch the network. For now the parser is half ported.",
)
FACTS = (
    *("Build the settings page", "Kestrel", "port 4711", "legacy/ stays untouched", "no new dependencies", "Marisol"),
    *("tabs, not spaces", "keep the old names", "YAML because JSON has no comments", "asyncio instead of threads"),
    *("half of odd.cfg is in Latin-1", "the cache cannot be shared", "assuming the clock is UTC"),
    *("must not touch the network", "the parser is half ported", "ls kestrel-all", "No such file or directory"),
    *("echo counted-99", "begun.txt", "release is on Friday"),
)
"""What was said, tried and found out in the first session."""


def tools(name: str) -> Tools:
    return OURS if name == "native" else PROGRAMS[name].tools


def named(name: str, folder: Path, file: str) -> str:
    return str(folder / file) if name != "native" and PROGRAMS[name].absolute else file


def call(made: tuple[str, dict[str, object]], number: int) -> CallLine:
    return CallLine(name=made[0], arguments=made[1], id=f"call_{number}")


def first(name: str, folder: Path) -> Script:
    shell, write = tools(name)
    steps = [
        ("begin", SAID[0], shell("ls kestrel-all")),
        ("count", "", shell("echo counted-99")),
        ("write", "", write(named(name, folder, "begun.txt"), "half\n")),
    ]
    return Script(
        reply=(
            ScriptedReply(system="title generator", text="A title", times="always"),
            ScriptedReply(when=r"\[\[half\]\]", text=SAID[2], times="always"),
            ScriptedReply(when=r"\[\[summary\]\]", text="A summary.", times="always"),
            *[
                ScriptedReply(when=rf"\[\[{word}\]\]", text=text, call=(call(made, at),))
                for at, (word, text, made) in enumerate(steps)
            ],
            ScriptedReply(text=SAID[1], times="always"),
        )
    )


def second(name: str, folder: Path) -> Script:
    rest = call(tools(name).write(named(name, folder, "rest.txt"), "rest\n"), 1)
    return Script(
        reply=(
            ScriptedReply(system="title generator", text="A title", times="always"),
            ScriptedReply(when=r"\[\[rest\]\]", text="I do the rest.", call=(rest,)),
            ScriptedReply(text="All is done.", times="always"),
        )
    )


def opened(name: str, home: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Agent, str | None]:
    if name != "native":
        return wrapped(agent(name, home, url)), None
    monkeypatch.setenv("TREADLE_BASE_URL", f"{url}/v1")
    return find_agent("native"), "chat:m"


def begun_in(home: Path) -> list[int]:
    """The processes that have this home."""
    mark = f"HOME={home}\0".encode()
    found = []
    for each in table.processes():
        try:
            found += [each.pid] if mark in Path(f"/proc/{each.pid}/environ").read_bytes() else []
        except OSError:
            pass
    return found


@pytest.mark.parametrize(("before", "after"), PAIRS)
async def test_the_second_finishes_what_the_first_began(
    before: str, after: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, homes = tmp_path / "work", [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    work.mkdir()
    gathering = Gathering(Redactor())
    async with ModelServer(first(before, work), batch=False) as server:
        driven, model = opened(before, homes[0], server.url, monkeypatch)
        spec = SessionSpec(cwd=str(work), mode="full-auto", model=model, inherit_env=model is not None)
        session = await driven.open(spec)
        try:
            played = await go_through(session, Scenario("first", PROMPTS, lambda played: None))
            asked_before = len(server.asked)
            await go_through(session, Scenario("first", (SUMMARY,), lambda played: None))
        finally:
            await session.close()
        summing = [estimate("".join(texts(request.body))) for request in server.asked[asked_before:]]
    assert begun_in(homes[0]) == [], "nothing of the first is left running"
    for event in played.events:
        gathering.look(event)
    assert {each.name: each.read_text() for each in work.iterdir()} == {"begun.txt": "half\n"}
    handover = gathering.handover(before).prompt()
    async with ModelServer(second(after, work), batch=False) as server:
        driven, model = opened(after, homes[1], server.url, monkeypatch)
        spec = SessionSpec(cwd=str(work), mode="full-auto", model=model, inherit_env=model is not None)
        session = await driven.open(msgspec.structs.replace(spec, start=Start(handover=handover)))
        try:
            ended = await go_through(session, Scenario("second", ("[[rest]] Go on.",), lambda played: None))
        finally:
            await session.close()
        asked = [request.body for request in server.asked]
    told = next((text for body in asked for text in texts(body) if "<handover>" in text), str(asked))
    missing = [fact for fact in FACTS if fact not in told]
    print(f"{before} -> {after}: {len(FACTS) - len(missing)} of {len(FACTS)}, {estimate(handover)} tokens, {missing}")
    print(f"{before}: a summary by itself is {len(summing)} calls, which are given {sum(summing)} tokens")
    assert ended.ends[-1].outcome == "completed", ended.ends[-1]
    assert len(missing) <= 1 and estimate(handover) <= 8000
    assert {each.name: each.read_text() for each in work.iterdir()} == {"begun.txt": "half\n", "rest.txt": "rest\n"}


def texts(tree: object) -> list[str]:
    if isinstance(tree, str):
        return [tree]
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list | tuple) else ()
    return [text for each in inner for text in texts(each)]


def one_command(name: str, command: str, tokens: int) -> Script:
    called = (call(tools(name).shell(command), 1),)
    title = ScriptedReply(system="title generator", text="A title", times="always")
    begins = ScriptedReply(when="port it", text="I port it.", call=called, usage=UsageLine(input=tokens, output=1))
    return Script(reply=(title, begins, ScriptedReply(text="All is done.", times="always")))


@pytest.mark.parametrize(("before", "after"), [("claude", "codex"), ("codex", "claude")])
async def test_at_a_limit_of_days_the_order_lands_with_the_other_vendor(
    before: str, after: str, nothing_left: None, repository: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    limited = ModelServer(
        one_command(before, "echo begun >> log.txt", 100),
        faults=[parse("ok"), *[parse(f"429:{DAYS}")] * 100],
        batch=False,
    )
    async with limited, ModelServer(one_command(after, "echo ended >> log.txt", 50), batch=False) as other:
        envs = [environment(before, home, limited.url), environment(after, home, other.url)]
        path = os.pathsep.join(env["PATH"] for env in envs)
        env = {**os.environ, **envs[0], **envs[1], "PATH": path, "TREADLE_HOME": os.environ["TREADLE_HOME"]}

        async def fleet(*arguments: str) -> str:
            return await typed("fleet", *arguments, cwd=repository, env=env)

        await fleet("up", "--slots", "1")
        given = ("port it", "--agent", before, "--mode", "full-auto", "--fallback", after, "--land", "main")
        order = (await fleet("submit", *given, "--verify", "test -s log.txt")).split()[0]
        began = time.monotonic()
        await fleet("wait", order)
        print(f"{before} -> {after}: {time.monotonic() - began:.0f} s")
        await until(lambda: "log.txt" in git(repository, "ls-tree", "--name-only", "main"))
        assert git(repository, "show", "main:log.txt") == "begun\nended", "nothing was done twice"
        shown = json.loads(await fleet("show", order, "--json"))["order"]
        assert [(each["agent"], each["used"]["input_tokens"] >= 50) for each in shown["attempts"]] == [
            (before, True),
            (after, True),
        ]
        assert shown["handed"][0]["reason"] == "usage_limit" and shown["used"]["input_tokens"] >= 150
        receipts = await typed("receipt", "list", cwd=repository, env=env)
        assert [each["run"] in receipts for each in shown["attempts"]] == [True, True]
        await fleet("down")
