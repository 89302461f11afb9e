"""The driver of the how-to page, typed from it word by word: whatever it does not declare is refused for it."""

import sys
from pathlib import Path

import msgspec
import pytest

import treadle
from tests.distributions import add_distribution
from tests.sessions.test_abilities import WISHES
from treadle.agents import find_agent
from treadle.cli.agents import template
from treadle.errors import Unsupported
from treadle.events import Warned
from treadle.io.paths import config_file
from treadle.session import Confinement, Decision, Guards, Limits, Prompt, SessionSpec
from treadle.sessions.abilities import ABILITIES


@pytest.fixture(autouse=True)
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page shows, as `treadle agents new` writes it, installed and allowed."""
    for path, text in template("loom").items():
        (file := tmp_path / "typed" / path).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for module in [name for name in sys.modules if name.startswith("treadle_agent_loom")]:
        monkeypatch.delitem(sys.modules, module)
    add_distribution(monkeypatch, tmp_path / "typed", tmp_path / "installed")


def work(tmp_path: Path) -> Path:
    (place := tmp_path / "work").mkdir()
    return place


async def said(command: str, prompt: str, spec: SessionSpec) -> treadle.TurnSummary:
    session = await find_agent(f"loom:{command}", {}).open(spec)
    assert isinstance(session, treadle.Session)
    answer = treadle.totals([event async for event in treadle.run_turn(session, prompt)])
    await session.close()
    return answer


async def test_it_is_an_agent(tmp_path: Path) -> None:
    spec = SessionSpec(cwd=str(tmp_path))
    answer = await said("echo so:", "hello", spec)
    assert (answer.text, answer.outcome) == ("so: hello\n", "completed")
    answer = await said("sh -c 'echo no >&2; exit 3'", "hello", spec)
    assert answer.error is not None and answer.error.message.endswith("exited with code 3; its last words: no")


async def test_it_refuses_every_request_that_it_would_ignore(tmp_path: Path) -> None:
    started, cwd = tmp_path / "started", str(work(tmp_path))
    for ability, spec in WISHES.items():
        with pytest.raises(Unsupported, match=f"loom {ABILITIES[ability].refusal}"):
            await said(f"touch {started}", "x", msgspec.structs.replace(spec, cwd=cwd))
    assert not started.exists()


async def test_it_refuses_images_and_messages_during_a_turn(tmp_path: Path) -> None:
    session = await find_agent("loom:echo", {}).open(SessionSpec(cwd=str(tmp_path)))
    with pytest.raises(Unsupported, match="loom accepts no images"):
        await session.prompt(Prompt(text="x", images=(b"x",)))
    with pytest.raises(Unsupported, match="loom cannot be given a message"):
        await session.steer("turn", "x")
    await session.close()


@pytest.mark.parametrize("where", ["person", "settings", "agent"])
async def test_it_does_not_escape_the_sandbox_that_is_asked_for(where: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    asked = Confinement(use="on")
    spec = SessionSpec(cwd=str(work(tmp_path)), confinement=asked if where == "person" else Confinement())
    if where == "settings":
        with Path(config_file()).open("a") as file:
            file.write("[sandbox]\nuse = true\n")
    agent = find_agent(f"loom:touch {outside}", {}, asked if where == "agent" else None)
    with pytest.raises(Unsupported, match="loom cannot be confined from here"):
        await agent.open(spec)
    assert not outside.exists()


async def test_its_turns_are_limited_in_time(tmp_path: Path) -> None:
    spec = SessionSpec(cwd=str(tmp_path), limits=Limits(max_seconds=0.1))
    answer = await said("sh -c 'sleep 600'", "x", spec)
    assert answer.outcome == "limited" and answer.error is not None
    assert answer.error.message == "the turn took more than 0.1 s"


async def test_what_is_not_asked_for_by_a_person_and_does_not_bind_it_is_said(tmp_path: Path) -> None:
    settings = "add_dirs = ['x']\n[permissions]\ndeny = ['Bash(rm *)']\n[[hooks.pre_tool]]\ncommand = 'true'\n"
    Path(config_file()).write_text(settings + Path(config_file()).read_text())
    guards = Guards(judge=lambda access: Decision(verdict="allow"))
    session = await find_agent("loom:echo", {}).open(SessionSpec(cwd=str(tmp_path), guards=guards))
    warned = [event for event in session.events().ready() if isinstance(event, Warned)]
    await session.close()
    assert {event.code for event in warned} == {"not_enforced"}
    assert [event.message.removeprefix("loom ") for event in warned] == [
        ABILITIES["rules"].refusal,
        ABILITIES["add_dirs"].refusal,
        "is not kept from what others have claimed",
        "does not run the hooks of the settings: only our own agent does",
    ]
