"""What every driven agent has in common."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from tests.drivers.test_session import replayed
from tests.drivers.told import Lines
from tests.waiting import until
from treadle.agents import _load, wrapped
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Card, Launch, cards, launch_of, levels
from treadle.errors import AuthFailed, ConfigError, NotFound, PeerStalled, RemoteError, TreadleError, Unsupported
from treadle.events import Warned
from treadle.io.process import table
from treadle.session import Limits, Rules, SessionSpec
from treadle.sessions.abilities import ABILITIES
from treadle.sessions.session import BaseSession


class Never(DrivenAgent):
    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> BaseSession:
        raise AssertionError("a probe opens nothing")


async def test_a_probe_sees_no_more_of_the_environment_than_a_run(tmp_path: Path) -> None:
    program = tmp_path / "some-agent"
    seen = tmp_path / "seen"
    program.write_text(f"#!/bin/sh\nenv > {seen}\necho some-agent 3.2.1\n")
    program.chmod(0o755)
    card = Card(name="some", title="Some", driver="x:y", how="by hand", program=str(program), environment=("SOME_KEY",))
    around = {"PATH": os.environ["PATH"], "SOME_KEY": "mine", "OTHER_API_KEY": "not-its-own", "TREADLE_AGENT": "claude"}
    agent = Never(card, launch_of(card), environ=around)
    assert (await agent.probe()).version == "3.2.1"
    told = dict(line.partition("=")[::2] for line in seen.read_text().splitlines())
    assert told["SOME_KEY"] == "mine" and "OTHER_API_KEY" not in told and "TREADLE_AGENT" not in told
    assert set(told) - {"PWD", "SHLVL", "_", "OLDPWD"} <= set(agent.env({}))


async def test_a_program_whose_version_is_no_longer_waited_for_is_ended(tmp_path: Path) -> None:
    program, began = tmp_path / "some-agent", tmp_path / "began"
    program.write_text(f"#!/bin/sh\necho $$ > {began}.new; mv {began}.new {began}; exec sleep 600\n")
    program.chmod(0o755)
    card = Card(name="some", title="Some", driver="x:y", how="by hand", program=str(program))
    asking = asyncio.create_task(Never(card, launch_of(card), environ={"PATH": os.environ["PATH"]}).version())
    await until(began.exists)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: table.look(int(began.read_text())) is None)


@pytest.mark.parametrize("name", ["claude", "codex", "pi", "kimi"])
async def test_how_long_it_may_take_to_open_a_session_is_a_setting(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text("[timeouts]\nagent_start = 0.01\n")
    card, launch = cards()[name], Launch(argv=("sh", "-c", "exec sleep 600"))
    agent = wrapped(_load(card.driver)(card, launch), card, launch)
    with pytest.raises(PeerStalled) as stalled:
        await agent.open(SessionSpec.of(cwd=str(tmp_path)))
    assert "within 0.0" in stalled.value.message and "timeouts.agent_start" in str(stalled.value)
    assert "None" not in str(stalled.value)


class Seen(DrivenAgent):
    """Opens nothing, and keeps what it was asked to open."""

    asked: SessionSpec
    given: dict[str, str]
    error: TreadleError = RemoteError("enough was seen")

    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> BaseSession:
        self.asked, self.given = spec, env
        raise self.error


SOME = Card(
    name="some",
    title="Some",
    driver="x:y",
    how="by hand",
    program="sh",
    capabilities=levels(native=" ".join(ABILITIES)),
)


async def seen(spec: SessionSpec, agent: Seen) -> SessionSpec:
    with pytest.raises(type(agent.error)):
        await wrapped(agent, agent.card, agent.launch, environ=agent.environ).open(spec)
    return agent.asked


async def test_a_session_is_opened_with_what_the_settings_add_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Path(os.environ["TREADLE_HOME"]) / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(
        "add_dirs = ['files']\n[permissions]\nallow = ['Read']\nask = ['Edit']\ndeny = ['Bash(rm *)']\n"
        "[limits]\nmax_tokens = 7\nmax_cost_usd = 2.0\n"
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w").mkdir()
    launch = Launch(argv=("sh",), model="big", models={"big": "large-1"}, mode="plan", environment=("KEY",))
    environ = {"PATH": "/bin", "KEY": "k", "OTHER": "o", "TREADLE_HOME": os.environ["TREADLE_HOME"]}
    spec = SessionSpec(
        cwd="w", mode=None, env={"MINE": "m"}, rules=Rules(allow=("Grep",), ask=("Write",), deny=("Task",)),
        limits=Limits(max_tokens=9), add_dirs=("more",),
    )  # fmt: skip
    agent = Seen(SOME, launch, environ=environ)
    asked = await seen(spec, agent)
    assert (asked.cwd, asked.model, asked.mode) == (str(tmp_path / "w"), "large-1", "plan")
    assert asked.rules == Rules(allow=("Read", "Grep"), ask=("Edit", "Write"), deny=("Bash(rm *)", "Task"))
    assert (asked.limits.max_tokens, asked.limits.max_cost_usd) == (9, 2.0)
    assert asked.add_dirs == (str(tmp_path / "w" / "files"), str(tmp_path / "w" / "more"))
    assert asked.routine == ("iterations", "repeats", "sandbox"), "what a person asked for is not routine"
    assert agent.given.items() >= {"PATH": "/bin", "KEY": "k", "MINE": "m"}.items() and "OTHER" not in agent.given
    own = msgspec.structs.replace(spec, model="other", mode="suggest", add_dirs=(), limits=Limits(max_iterations=3))
    again = await seen(own, Seen(SOME, launch, environ=environ))
    assert (again.model, again.mode) == ("other", "suggest") and again.limits.max_tokens == 7
    assert again.routine == ("repeats", "add_dirs", "sandbox")


async def test_what_cannot_be_opened_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    agent = Seen(msgspec.structs.replace(SOME, capabilities={}), Launch(argv=("sh",)), environ={})
    around = wrapped(agent, agent.card, agent.launch, environ={})
    with pytest.raises(ConfigError, match="gone does not exist") as missing:
        await around.open(SessionSpec(cwd=str(tmp_path / "gone")))
    assert missing.value.hint == "make it, or name another"
    with pytest.raises(Unsupported, match="cannot be told which model"):
        await around.open(SessionSpec(cwd=str(tmp_path), model="m"))
    assert not hasattr(agent, "asked")


async def test_an_agent_that_stalls_or_is_not_let_in_says_what_helps(tmp_path: Path) -> None:
    around = {"ACME_KEY": "k"}
    for error, hint in (
        (PeerStalled("slow"), "timeouts.agent_start in the settings gives it longer"),
        (PeerStalled("slow", hint="look"), "timeouts.agent_start in the settings gives it longer; look"),
        (AuthFailed("no ACME_KEY", provider="x"), "ACME_KEY: set here but not passed to it"),
        (RemoteError("broken", hint="look"), "look"),
    ):
        agent = Seen(SOME, Launch(argv=("sh",)), environ=around)
        agent.error = error
        await seen(SessionSpec(cwd=str(tmp_path)), agent)
        assert (error.hint or "").startswith(hint), error


async def test_a_program_that_is_not_installed_names_the_command_that_installs_it(tmp_path: Path) -> None:
    card = msgspec.structs.replace(SOME, install="npm install some")
    agent = Never(card, Launch(argv=("no-such-program",)), environ={})
    spec = SessionSpec(cwd=str(tmp_path))
    with pytest.raises(NotFound, match="Some is not installed: there is no no-such-program on PATH") as missing:
        await agent.start(["no-such-program"], Lines(), spec, {"PATH": "/bin"})
    assert missing.value.hint == "npm install some"
    with pytest.raises(NotFound, match="no-such-program"):
        await Never(SOME, agent.launch, environ={}).start(["no-such-program"], Lines(), spec, {"PATH": "/bin"})
    probed = await Never(SOME, Launch(argv=("sh",)), environ={"PATH": os.environ["PATH"]}).probe()
    assert probed.name == "some" and probed.capabilities == dict(SOME.capabilities)


async def test_hooks_of_the_settings_are_not_run_by_an_agent_of_others_and_that_is_said(tmp_path: Path) -> None:
    settings = Path(os.environ["TREADLE_HOME"]) / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("[[hooks.pre_tool]]\ncommand = 'true'\n")
    for project, warned in ((True, 1), (False, 0)):
        environ = {"TREADLE_HOME": os.environ["TREADLE_HOME"]}
        session = await replayed(cards()["claude"], "text", environ=environ).open(
            SessionSpec.of(cwd=str(tmp_path), project=project)
        )
        said = [event for event in session.events().ready() if isinstance(event, Warned) and "hooks" in event.message]
        await session.close()
        assert len(said) == warned and all(event.code == "not_enforced" for event in said)
