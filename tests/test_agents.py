"""Finding agents by name, and binding them to what others have claimed."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import reply, says
from tests.stand_ins.sessions import ScriptedAgent
from treadle.agent.session import CAPABILITIES, NativeSession
from treadle.agents import _both, bound_by_claims, declared, find_agent, find_driver, names, takes_programs, wrapped
from treadle.coordination import relay as relaying
from treadle.coordination.identity import PROCESS_VARIABLE
from treadle.coordination.repository import MARK, RELAY
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import cards
from treadle.errors import ConfigError, Denied
from treadle.events import ToolDenied, ToolEnded
from treadle.io.paths import config_file
from treadle.session import Access, Agent, Amount, Confinement, Decision, Guards, SessionSpec
from treadle.sessions.totals import run_turn
from treadle.settings.config import AgentSettings

BIN = Path(sys.executable).parent


@pytest.mark.parametrize("name", ["native", "worker:some-program --flag", "sidecar:some-program"])
def test_an_agent_is_found_by_its_name(name: str) -> None:
    assert isinstance(find_agent(name), Agent)


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match="native.*worker:COMMAND"):
        find_agent("nobody")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("worker: ", "lacks its command .such as --agent 'worker:my-agent --flag'"),
        ("a2a:", "lacks its url .such as --agent 'a2a:https://agent.example'"),
    ],
)
def test_a_prefix_without_what_follows_says_what_is_missing(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        find_agent(name)


def test_every_folder_of_drivers_declares_a_card_whose_driver_can_be_made() -> None:
    found = cards()
    assert {"claude", "sidecar", "worker"} <= found.keys()
    for card in found.values():
        made = find_agent(f"{card.name}:some-program" if card.prefix else card.name, {})
        assert isinstance(made, Agent)
        assert card.capabilities and card.how and card.title


def test_a_person_adds_an_agent_in_the_settings() -> None:
    settings = {"mine": AgentSettings(speaks="claude", command="/opt/mine --quiet", arguments=("--x",), model="big")}
    made = find_driver("mine", settings)
    assert isinstance(made, DrivenAgent)
    assert made.name == "mine"
    assert made.launch.argv == ("/opt/mine", "--quiet", "--x")
    assert made.launch.model_name(None) == "big"


def test_an_agent_of_the_settings_says_how_it_is_driven() -> None:
    with pytest.raises(ConfigError, match="do not define the agent mine.*agents.mine.speaks"):
        find_agent("mine", {"mine": AgentSettings(command="x")})


def test_the_settings_change_how_a_known_agent_is_started() -> None:
    made = find_driver("claude", {"claude": AgentSettings(command="/opt/claude", env=("AWS_PROFILE",))})
    assert isinstance(made, DrivenAgent)
    assert made.launch.argv[0] == "/opt/claude"
    assert "AWS_PROFILE" in made.launch.environment


def test_the_persons_own_settings_count_where_none_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(config_file()).parent.mkdir(parents=True)
    Path(config_file()).write_text('[agents.mine]\nspeaks = "claude"\n[agents.other]\nspeaks = "codex"\n')
    made = find_driver("mine")
    assert (
        isinstance(made, DrivenAgent) and made.card.title == "mine" and made.card.program == cards()["claude"].program
    )
    assert not made.card.install and not made.card.recorded and made.card.driver == cards()["claude"].driver
    assert [takes_programs(name) for name in ("native", "mine", "other", "claude")] == [True, True, False, True]
    assert declared("mine") == cards()["claude"].capabilities and declared("native") == CAPABILITIES
    assert declared("nobody") is None and declared("mine", {}) is None
    with pytest.raises(ConfigError, match="there is no agent 'mine'"):
        takes_programs("mine", {})
    listed = names({"mine": AgentSettings(), "claude": AgentSettings()})
    assert listed[0] == "native" and listed[-1] == "mine" and listed.count("claude") == 1 and "a2a:URL" in listed


@pytest.mark.parametrize(("asked", "opened"), [("on", "on"), ("off", "off"), ("auto", "possible")])
async def test_the_confinement_that_a_person_asks_for_is_that_of_every_session(asked: Any, opened: str) -> None:
    scripted = ScriptedAgent()
    confined = wrapped(scripted, confinement=Confinement(use=asked, network="off"))
    assert confined.name == "scripted" and (await confined.probe()).name == "scripted"
    await confined.open(SessionSpec(cwd="/", confinement=Confinement(use="possible", network="on")))
    assert scripted.sessions[0].spec.confinement == Confinement(use=opened, network="off")  # type: ignore[arg-type]
    assert confined.sessions is scripted.sessions, "its other abilities are there as well"


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


@pytest.mark.slow
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


def repository(top: Path) -> Path:
    for name in ("objects", "refs"):
        (top / ".git" / name).mkdir(parents=True)
    (top / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return top


def test_a_session_outside_of_a_repository_is_left_as_it_is(tmp_path: Path) -> None:
    spec = SessionSpec(cwd=str(tmp_path))
    assert bound_by_claims(spec, {}) is spec
    assert bound_by_claims(spec, {"HEIMDALL_HAID": "haid:ann.box-1a2b/coder"}).guards.judge is not None
    assert "HEIMDALL_HAID" in bound_by_claims(spec, {"HEIMDALL_PLANNING_DIR": str(tmp_path)}).env


def test_confined_programs_claim_through_a_relay_unless_they_could_write_the_claims_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = repository(tmp_path / "project")
    (top / "part").mkdir()
    bound = bound_by_claims(SessionSpec(cwd=str(top / "part")), {})
    relay, haid = bound.confinement.relay, bound.env["HEIMDALL_HAID"]
    assert relay is not None and (relay.place, relay.cwd) == (RELAY, str(top))
    assert relay.argv == (sys.executable, "-P", "-m", "treadle.cli.heimdall.outside")
    live = str(top / ".git" / "heimdall")
    process = {PROCESS_VARIABLE: bound.env[PROCESS_VARIABLE]}
    assert dict(relay.env) == {"HEIMDALL_HAID": haid, "HEIMDALL_PLANNING_DIR": live, **process}
    named = {"HEIMDALL_HAID": "haid:ann.box-1a2b/coder", PROCESS_VARIABLE: "7:9"}
    bound = bound_by_claims(SessionSpec(cwd=str(top)), named)
    assert bound.env == {} and bound.confinement.relay is not None
    assert dict(bound.confinement.relay.env) == {**named, "HEIMDALL_PLANNING_DIR": live}
    for place, writable, granted in (
        (tmp_path / "live", (), True),
        (tmp_path / "live", ("../live",), False),
        (top / "live", (), False),
    ):
        place.mkdir(exist_ok=True)
        monkeypatch.setenv("HEIMDALL_PLANNING_DIR", str(place))
        bound = bound_by_claims(SessionSpec(cwd=str(top), add_dirs=writable), {})
        assert (bound.confinement.relay is not None) is granted, place


@pytest.mark.parametrize("code", [0, 1, None])
def test_a_session_inside_of_another_asks_by_the_others_relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    top = repository(tmp_path / "project")
    (top / ".git" / MARK).touch()
    monkeypatch.setattr(relaying, "RELAY", str(tmp_path / "r"))
    requests: list[relaying.RelayRequest] = []

    def serve(listening: socket.socket) -> None:
        there, _ = listening.accept()
        with there:
            requests.append(relaying.parse_request(relaying.line_from(there)))
            there.sendall(relaying.answer(code or 0, b"", b" held by bob \n"))

    bound = bound_by_claims(SessionSpec(cwd=str(top), confinement=Confinement(sockets=("/one",))), {})
    judge = bound.guards.judge
    assert bound.confinement.sockets == ("/one", RELAY) and judge is not None
    inside, outside = (str(top / "src" / "a.py"), "/elsewhere/b.py")
    for kind, paths in (("read", (inside,)), ("write", (outside,)), ("write", ())):
        assert judge(Access(tool="t", kind=kind, paths=paths)).verdict == "allow", "no one is asked"  # type: ignore[arg-type]
    with socket.socket(socket.AF_UNIX) as listening:
        if code is not None:
            listening.bind(str(tmp_path / "r"))
            listening.listen()
            serving = threading.Thread(target=serve, args=[listening])
            serving.start()
        found = judge(Access(tool="t", kind="write", paths=(outside, inside)))
        if code is None:
            assert found.reason.startswith("others' claims cannot be read: ") and found.verdict == "deny"
            return
        serving.join(60)
    (asked,) = requests
    assert (asked.top, asked.command, asked.arguments) == (str(top), "claim", ["check", "--", "src/a.py"])
    assert found == (
        Decision(verdict="deny", reason="held by bob", by="claim") if code else Decision(verdict="allow", by="claim")
    )


def test_two_guards_together_are_both_asked_told_and_closed() -> None:
    said: list[str] = []

    def guards(name: str) -> Guards:
        @contextmanager
        def writing(paths: tuple[str, ...]) -> Iterator[None]:
            said.append(f"{name} opens {paths[0]}")
            yield
            said.append(f"{name} closes")

        def watching() -> Callable[[], None]:
            said.append(f"{name} watches")
            return lambda: said.append(f"{name} checks")

        async def calling(spent: Callable[[], Amount], most: Amount) -> Callable[[], None]:
            return lambda: None

        return Guards(writing=writing, watching=watching, holding=lambda: {name: "held", "both": name}, calling=calling)

    one, other = guards("one"), guards("other")
    both = _both(one, other)
    assert both.judge is None and both.calling is one.calling
    assert both.writing is not None and both.watching is not None and both.holding is not None
    with both.writing(("a",)):
        said.append("written")
    both.watching()()
    assert said[:5] == ["one opens a", "other opens a", "written", "other closes", "one closes"]
    assert said[5:] == ["one watches", "other watches", "one checks", "other checks"]
    assert both.holding() == {"one": "held", "other": "held", "both": "other"}
    alone = _both(Guards(), one)
    assert alone.calling is None and alone.holding is not None and alone.holding()["one"] == "held"
