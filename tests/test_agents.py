"""Finding agents by name, and binding them to what others have claimed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import reply, says
from treadle.agent.session import NativeSession
from treadle.agents import bound_by_claims, find_agent
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import cards
from treadle.errors import ConfigError, Denied
from treadle.events import ToolDenied, ToolEnded
from treadle.session import Access, Agent, Decision, Guards, SessionSpec
from treadle.sessions.session import run_turn
from treadle.settings.config import AgentSettings

BIN = Path(sys.executable).parent


@pytest.mark.parametrize("name", ["native", "worker:some-program --flag", "sidecar:some-program"])
def test_an_agent_is_found_by_its_name(name: str) -> None:
    assert isinstance(find_agent(name), Agent)


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match="native.*worker:COMMAND"):
        find_agent("nobody")


def test_a_prefix_without_a_command_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="names no command"):
        find_agent("worker: ")


def test_every_folder_of_drivers_declares_a_card_whose_driver_can_be_made() -> None:
    found = cards()
    assert {"claude", "sidecar", "worker"} <= found.keys()
    for card in found.values():
        made = find_agent(f"{card.name}:some-program" if card.prefix else card.name, {})
        assert isinstance(made, Agent)
        assert card.capabilities and card.how and card.title


def test_a_person_adds_an_agent_in_the_settings() -> None:
    settings = {"mine": AgentSettings(speaks="claude", command="/opt/mine --quiet", arguments=("--x",), model="big")}
    made = find_agent("mine", settings)
    assert isinstance(made, DrivenAgent)
    assert made.name == "mine"
    assert made.launch.argv == ("/opt/mine", "--quiet", "--x")
    assert made.launch.model_name(None) == "big"


def test_an_agent_of_the_settings_says_how_it_is_driven() -> None:
    with pytest.raises(ConfigError, match="how the agent mine is driven.*agents.mine.speaks"):
        find_agent("mine", {"mine": AgentSettings(command="x")})


def test_the_settings_change_how_a_known_agent_is_started() -> None:
    made = find_agent("claude", {"claude": AgentSettings(command="/opt/claude", env=("AWS_PROFILE",))})
    assert isinstance(made, DrivenAgent)
    assert made.launch.argv[0] == "/opt/claude"
    assert "AWS_PROFILE" in made.launch.environment


SCRIPT = reply(
    call=[
        {"name": "write_file", "arguments": {"file_path": "src/mine.py", "content": "x"}},
        {"name": "write_file", "arguments": {"file_path": "docs/free.md", "content": "x"}},
        {"name": "bash", "arguments": {"command": "echo y > src/theirs.py"}},
        {"name": "bash", "arguments": {"command": 'python3 -c \'open(chr(115) + "rc/theirs.py", "w")\'; echo done'}},
        {
            "name": "bash",
            "arguments": {
                "command": 'python3 -c \'open(chr(115) + "rc/theirs.py", "a").write("z")\'',
                "background": True,
            },
        },
    ]
) + says("finished")


@pytest.mark.parametrize("named", [True, False], ids=["named", "without a name"])
async def test_what_somebody_else_has_claimed_is_theirs_for_the_native_agent_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    repository = tmp_path / "repository"
    (repository / "src").mkdir(parents=True)
    (repository / "src" / "theirs.py").write_text("old")
    _run(repository, "git", "init", "-q")
    other, own = (_run(repository, BIN / "heimdall-haid", "spawn", role).strip() for role in ("other", "own"))
    for haid in (other, own):
        _run(repository, BIN / "heimdall-haid", "register", "--haid", haid)
    monkeypatch.setenv("HEIMDALL_HAID", other)
    _run(repository, BIN / "heimdall-claim", "claim", "src/**", "--task", "rework")
    monkeypatch.setenv("HEIMDALL_HAID", own) if named else monkeypatch.delenv("HEIMDALL_HAID")
    session = await find_agent().open(SessionSpec(cwd=str(repository), model=f"scripted:{script}", mode="full-auto"))
    events: list[Any] = [event async for event in run_turn(session, "go")]
    assert isinstance(session, NativeSession)
    background = await session.tasks.wait("process_1")
    await session.close()
    denied = [event for event in events if isinstance(event, ToolDenied)]
    assert [event.name for event in denied] == ["write_file", "bash"]  # a redirection is foreseen, too
    assert all(event.by == "claim" and other in event.reason for event in denied)
    assert not (repository / "src" / "mine.py").exists()
    written, ran, _ = [event for event in events if isinstance(event, ToolEnded)]
    assert written.ok and (repository / "docs" / "free.md").exists()
    assert "Read-only file system" in ran.result and f"src overlaps src/** held by {other}" in ran.result
    assert background.exit_code != 0 and (repository / "src" / "theirs.py").read_text() == "old"


def _run(cwd: Path, *command: str | Path) -> str:
    return subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=True).stdout


async def test_a_session_without_a_name_has_its_own_in_its_commands_and_keeps_the_guards_it_came_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEIMDALL_HAID", raising=False)
    _run(tmp_path, "git", "init", "-q")
    unclaimed = bound_by_claims(SessionSpec(cwd=str(tmp_path)), {})
    assert "/treadle-" in unclaimed.env["HEIMDALL_HAID"] and unclaimed.guards.judge is None
    _run(tmp_path, BIN / "heimdall-claim", "claim", "src", "--task", "T")
    asked: list[str] = []

    def judge(access: Access) -> Decision:
        asked.append(access.tool)
        return Decision(verdict="deny" if access.tool == "never" else "allow", by="rule")

    bound = bound_by_claims(SessionSpec(cwd=str(tmp_path), guards=Guards(judge=judge)), {})
    assert bound.env["HEIMDALL_HAID"] != unclaimed.env["HEIMDALL_HAID"]
    assert bound.guards.judge is not None and bound.guards.writing is not None
    for tool, path, by in (("never", "docs/x", "rule"), ("write", "src/x", "claim")):
        found = bound.guards.judge(Access(tool=tool, kind="write", paths=(str(tmp_path / path),)))
        assert (found.verdict, found.by) == ("deny", by)
    with pytest.raises(Denied), bound.guards.writing((str(tmp_path / "src/x"),)):
        raise AssertionError("must not write")
    assert asked == ["never", "write"]


async def test_where_claims_cannot_be_seen_a_person_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEIMDALL_HAID", raising=False)
    _run(tmp_path, "git", "init", "-q")
    _run(tmp_path, BIN / "heimdall-claim", "claim", "src", "--task", "T")
    (tmp_path / ".git/heimdall/ledger/claims/haid_bob.box-0002.json").write_text("{")
    bound = bound_by_claims(SessionSpec(cwd=str(tmp_path)), {})
    assert bound.guards.judge is not None
    found = bound.guards.judge(Access(tool="write", kind="write", paths=(str(tmp_path / "docs/x"),)))
    assert found.verdict == "ask" and "haid_bob.box-0002.json" in found.reason
