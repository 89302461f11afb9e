"""A driven agent in a sandbox, judged by what it could do."""

import asyncio
import os
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agent.checkouts import checkout
from tests.drivers.told import Lines
from tests.io.sandbox.rooms import WRITES_TOO_MUCH, writing_counts
from tests.scripts import calls, says
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.agents import bound_by_claims, find_agent
from treadle.confinement import ResourceLimits
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning
from treadle.drivers.card import cards
from treadle.drivers.confined import (
    Enclosure,
    _begun_confined,
    _state,
    decided,
    enclosure,
    is_sealed,
    networked,
    started,
    unchanged,
    watched,
)
from treadle.errors import ConfigError, TreadleError
from treadle.events import AnyEvent, Event, TurnEnded, Warned
from treadle.io.paths import config_file, state_dir
from treadle.io.peer import Peer
from treadle.io.sandbox import methods
from treadle.io.sandbox.proxy import Reaching
from treadle.session import Change, Confinement, Instructions, Limits, SessionSpec, Toolset
from treadle.sessions.totals import run_turn
from treadle.testing.server import ModelServer

SCRIPT = """
[[reply]]
[[reply.call]]
name = "bash"
arguments = {{ command = '''echo x > here; python3 -c "open('.envrc', 'w'); open('{out}', 'w')"; true''' }}
[[reply]]
text = "Done."
"""
can = methods.available().method is not None
KEPT = "0123456789abcdef"


def spec_in(workspace: Path, outside: Path, **more: object) -> SessionSpec:
    workspace.mkdir()
    outside.mkdir()
    (workspace / "script.toml").write_text(SCRIPT.format(out=outside / "there"))
    return SessionSpec(cwd=str(workspace), model="scripted:script.toml", **more)  # type: ignore[arg-type]


async def played(prefix: str, spec: SessionSpec) -> list[AnyEvent]:
    session = await find_agent(f"{prefix}:{Path(sys.executable).with_name(f'treadle-{prefix}')}").open(spec)
    try:
        return [event async for event in run_turn(session, "go")]
    finally:
        await session.close()


@pytest.mark.parametrize("prefix", ["worker", "sidecar"])
@pytest.mark.parametrize("use", ["auto", "on"])
async def test_a_program_that_is_driven_can_write_in_its_workspace_only(tmp_path: Path, prefix: str, use: str) -> None:
    """Also where no one asked for a sandbox: the mode full-auto has one, where the machine can make it."""
    asked = Confinement(use=use)  # type: ignore[arg-type]
    spec = spec_in(tmp_path / "w", tmp_path / "out", mode="full-auto", confinement=asked)
    if not can:
        if use == "on":
            with pytest.raises(ConfigError, match="cannot be enforced"):
                await played(prefix, spec)
        return
    await played(prefix, spec)
    assert (tmp_path / "w" / "here").exists() and not (tmp_path / "out" / "there").exists()


@pytest.mark.skipif(not can, reason="no sandbox here")
async def test_a_program_behind_a_linked_directory_is_found(tmp_path: Path) -> None:
    worker = Path(sys.executable).with_name("treadle-worker")
    (tmp_path / "real" / "bin").mkdir(parents=True)
    program = tmp_path / "real" / "bin" / "worker"
    program.write_text(f'#!/bin/sh\nexec {worker} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "link").symlink_to("real")
    spec = spec_in(tmp_path / "w", tmp_path / "out", mode="full-auto", confinement=Confinement(use="on"))
    session = await find_agent(f"worker:{tmp_path}/link/bin/worker").open(spec)
    events = [event async for event in run_turn(session, "go")]
    await session.close()
    assert isinstance(events[-1], TurnEnded) and events[-1].outcome == "completed"
    assert (tmp_path / "w" / "here").exists() and not (tmp_path / "out" / "there").exists()


@writing_counts
async def test_a_program_that_comes_up_to_a_limit_is_stopped_and_a_person_is_told_which(tmp_path: Path) -> None:
    asked = Confinement(use="on", limits=ResourceLimits(disk=5 << 20))
    spec = spec_in(tmp_path / "w", tmp_path / "out", mode="full-auto", confinement=asked)
    (tmp_path / "w" / "script.toml").write_text(
        f"[[reply]]\n[[reply.call]]\nname = 'bash'\narguments = {{ command = '{WRITES_TOO_MUCH}' }}"
    )
    events = await played("worker", spec)
    assert any(isinstance(one, Warned) and "more than 5 MB (limits of [sandbox]" in one.message for one in events)
    assert isinstance(events[-1], TurnEnded) and events[-1].outcome != "completed"


async def test_in_the_mode_yolo_it_can_write_wherever_its_user_can(tmp_path: Path) -> None:
    spec = spec_in(tmp_path / "w", tmp_path / "out", mode="yolo")
    await played("worker", spec)
    assert (tmp_path / "out" / "there").exists() and (tmp_path / "w" / ".envrc").exists()


@pytest.mark.parametrize(("mode", "confined"), [("full-auto", can), ("auto-edit", can), ("suggest", False)])
def test_the_mode_decides_where_nobody_else_does(tmp_path: Path, mode: str, confined: bool) -> None:
    asked = SessionSpec(cwd=str(tmp_path), mode=mode)  # type: ignore[arg-type]
    assert (decided(asked, {}).confinement.use == "on") is confined
    assert (enclosure(asked, "codex", ["codex"], {"HOME": str(tmp_path)}) is not None) is confined


@pytest.mark.parametrize("wish", [True, False])
def test_the_settings_of_a_person_decide_before_the_mode(tmp_path: Path, wish: bool) -> None:
    settings = Path(state_dir()) / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"sandbox = {str(wish).lower()}\n")
    if wish and not can:
        with pytest.raises(ConfigError, match="cannot be enforced"):
            decided(SessionSpec(cwd=str(tmp_path), mode="suggest"), os.environ)
        return
    for mode in ("suggest", "full-auto"):
        found = decided(SessionSpec(cwd=str(tmp_path), mode=mode), os.environ)  # type: ignore[arg-type]
        assert found.confinement.use == ("on" if wish else "off")


@pytest.mark.parametrize(("sources", "use"), [(None, "off"), (("user",), "on" if can else "auto")])
def test_a_project_whose_settings_are_not_asked_for_decides_nothing(tmp_path: Path, sources: Any, use: str) -> None:
    (tmp_path / ".treadle").mkdir()
    (tmp_path / ".treadle" / "config.toml").write_text("sandbox = false\nnetwork = 'off'\n")
    asked = SessionSpec(cwd=str(tmp_path), mode="full-auto", trusted=True, instructions=Instructions(sources=sources))
    found = decided(asked, os.environ).confinement
    assert (found.use, found.network) == (use, "auto" if sources else "off")


@pytest.mark.parametrize(
    ("use", "old", "new", "told"),
    [
        ("auto", "suggest", "full-auto", "continues without a sandbox"),
        ("auto", "auto-edit", "full-auto", ""),
        ("auto", "full-auto", "yolo", "stays in the sandbox"),
        ("auto", "suggest", "yolo", ""),
        ("off", "suggest", "full-auto", ""),
        ("possible", "yolo", "suggest", "continues without a sandbox"),
    ],
)
def test_a_mode_that_is_changed_does_not_change_the_sandbox_and_that_is_said(
    tmp_path: Path, use: Any, old: Any, new: Any, told: str
) -> None:
    spec = decided(SessionSpec(cwd=str(tmp_path), mode=old, confinement=Confinement(use=use)), {})
    said = unchanged(spec, new)
    assert (told in said and bool(told) == bool(said)) if can else said == ""


async def test_a_session_that_goes_over_to_another_mode_says_that_its_sandbox_stays(tmp_path: Path) -> None:
    agent = find_agent(f"acp:{Path(sys.executable).with_name('treadle')} acp")
    model = {"TREADLE_MODEL": f"scripted:{tmp_path}/w/script.toml"}
    spec = spec_in(tmp_path / "w", tmp_path / "out", env=model)
    session = await agent.open(replace(spec, model=None))
    try:
        await session.configure(Change(mode="full-auto"))
    finally:
        await session.close()
    said = [one.message for one in [each async for each in session.events()] if isinstance(one, Warned)]
    assert any("continues without a sandbox" in one for one in said) == can


def made(tmp_path: Path, argv: list[str], env: dict[str, str], writes: tuple[str, ...] = ()) -> Confinement:
    cage = Enclosure(SessionSpec(cwd=str(tmp_path), mode="full-auto"), "name", argv, env, writes)
    try:
        found = cage.now()
    finally:
        cage.close()
    assert found is not None
    return found


if can:

    def test_an_agent_keeps_a_home_of_its_own_also_when_its_command_is_typed_in_full(tmp_path: Path) -> None:
        home, work = tmp_path / "home", tmp_path / "w"
        work.mkdir()
        assert str(home / ".codex") in made(work, ["codex"], {"HOME": str(home)}, cards()["codex"].writes).write
        assert str(home / ".gemini") in made(work, ["/x/gemini", "--acp"], {"HOME": str(home)}).write
        assert sorted(os.listdir(home)) == [".codex", ".gemini"]

    def test_a_variable_that_moves_its_home_leaves_the_usual_one_alone(tmp_path: Path) -> None:
        env = {"HOME": str(tmp_path / "home"), "CODEX_HOME": str(tmp_path / "moved")}
        found = made(tmp_path, ["codex"], env, cards()["codex"].writes)
        assert str(tmp_path / "moved") in found.write and not (tmp_path / "home").exists()

    def test_the_first_run_of_an_agent_finds_what_it_unpacks_into(tmp_path: Path) -> None:
        """Copilot unpacks itself below the cache, wherever that is, also when its home was moved."""
        env = {"HOME": str(tmp_path / "home"), "COPILOT_HOME": str(tmp_path / "moved")}
        writes = cards()["copilot"].writes
        assert str(tmp_path / "home" / ".cache" / "copilot") in made(tmp_path, ["copilot"], env, writes).write
        found = made(tmp_path, ["copilot"], {**env, "XDG_CACHE_HOME": str(tmp_path / "cache")}, writes).write
        assert str(tmp_path / "cache" / "copilot") in found and (tmp_path / "cache" / "copilot").is_dir()
        assert str(tmp_path / "moved") in found and not (tmp_path / "home" / ".copilot").exists()

    def test_an_adapter_may_write_the_home_of_the_agent_that_it_starts(tmp_path: Path) -> None:
        env = {"CODEX_HOME": str(tmp_path / "codex")}
        found = made(tmp_path, ["/x/codex-acp"], env, (str(tmp_path / "more"),))
        assert str(tmp_path / "codex") in found.write

    async def test_a_program_below_tmp_runs_with_all_that_it_was_installed_with(tmp_path: Path) -> None:
        place = tmp_path / "node_modules"
        (place / "agent").mkdir(parents=True)
        (place / ".bin").mkdir()
        (place / "other.sh").write_text("echo '{}'\n")
        beside = '"$(dirname "$(readlink -f "$0")")/../other.sh"'
        (place / "agent" / "main.sh").write_text(f"#!/bin/sh\n. {beside}\nread end\n")
        (place / "agent" / "main.sh").chmod(0o755)
        (place / ".bin" / "agent").symlink_to("../agent/main.sh")
        work = tmp_path / "w"
        work.mkdir()
        argv = [str(place / ".bin" / "agent")]
        walls = enclosure(SessionSpec(cwd=str(work), mode="full-auto"), "it", argv, os.environ)

        def start(*, confinement: Confinement | None, reaching: Reaching | None) -> Awaitable[Peer[Any, str]]:
            return Peer.start(argv, Lines(), name="it", env=os.environ, cwd=str(work), confinement=confinement)

        async with await started(walls, start) as peer:
            assert await peer.hear(60)

    def test_a_program_of_ours_has_a_state_of_its_own_and_another_program_has_none(tmp_path: Path) -> None:
        ours = made(tmp_path, ["/usr/bin/treadle-worker"], {}).state
        assert ours is not None and ours.startswith(os.path.join(state_dir(), "driven"))
        assert made(tmp_path, ["other-worker"], {}).state is None

    @pytest.mark.slow
    async def test_a_session_of_ours_that_was_begun_confined_goes_on_confined(tmp_path: Path) -> None:
        spec = spec_in(tmp_path / "w", tmp_path / "out", mode="full-auto")
        agent = find_agent(f"worker:{Path(sys.executable).with_name('treadle-worker')}")
        first = await agent.open(spec)
        try:
            assert [event async for event in run_turn(first, "go")]
        finally:
            await first.close()
        for wanted in (first.id, ""):
            asked = replace(spec, mode="suggest", start=replace(spec.start, resume=wanted))
            again = await agent.open(asked)
            await again.close()
            assert again.id == first.id
        with pytest.raises(TreadleError, match="no session"):
            await agent.open(replace(asked, confinement=Confinement(use="off")))

    def test_no_home_means_no_place_of_its_own(tmp_path: Path) -> None:
        assert made(tmp_path, ["codex"], {}, cards()["codex"].writes).write == (str(tmp_path),)

    async def test_an_agent_that_fails_in_there_says_what_to_do(tmp_path: Path) -> None:
        agent = find_agent("worker:/bin/false")
        with pytest.raises(TreadleError) as failed:
            await agent.open(SessionSpec(cwd=str(tmp_path), mode="full-auto"))
        assert "--no-sandbox" in (failed.value.hint or "") and "agents.NAME.writes" in (failed.value.hint or "")

    async def test_what_it_makes_of_the_names_that_others_obey_is_taken_out_after_the_turn(tmp_path: Path) -> None:
        spec = SessionSpec(cwd=str(tmp_path), mode="full-auto")
        argv = ["bash", "-c", "read go; echo evil > .envrc; echo fine > kept; echo '{}'; read end"]
        walls = enclosure(spec, "it", argv, os.environ)

        def start(*, confinement: Confinement | None, reaching: Reaching | None) -> Awaitable[Peer[Any, str]]:
            return Peer.start(argv, Lines(), name="it", env=os.environ, cwd=str(tmp_path), confinement=confinement)

        told: list[Event] = []
        async with await started(walls, start) as peer:
            async with watched(peer, told.append):
                await peer.say("go\n")
                await peer.hear(60)
        assert not (tmp_path / ".envrc").exists() and (tmp_path / "kept").exists()
        assert [event.code for event in told if isinstance(event, Warned)][-1:] == ["taken_out"]
        assert ".envrc" in str(told)


@pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
async def test_what_others_claim_while_it_runs_becomes_read_only_and_a_person_is_told(tmp_path: Path) -> None:
    top = checkout(tmp_path / "w")
    spec = bound_by_claims(SessionSpec(cwd=str(top), mode="full-auto"), {})
    refused = "for n in $(seq 1200); do echo more >> file.txt || { echo '{}'; break; }; sleep 0.05; done"
    argv = ["bash", "-c", f"read go; echo '{{}}'; {refused}; read end"]
    walls = enclosure(spec, "it", argv, os.environ)

    def start(*, confinement: Confinement | None, reaching: Reaching | None) -> Awaitable[Peer[Any, str]]:
        return Peer.start(argv, Lines(), name="it", env=os.environ, cwd=str(top), confinement=confinement)

    told: list[Event] = []
    async with await started(walls, start) as peer:
        async with watched(peer, told.append):
            await peer.say("go\n")
            (await peer.hear(60)).popleft()
            Claims(Planning(project=str(top)), str(top)).claim("haid:bob.box-0002", ["file.txt"], "T-1")
            (await peer.hear(60)).popleft()
    (said,) = [event.message for event in told if isinstance(event, Warned) and event.code == "claims"]
    assert "haid:bob.box-0002" in said and "T-1" in said and "until" in said


@pytest.mark.parametrize(
    "words", [["treadle", "worker", "--agent", "qwen"], ["/x/qwen"]], ids=["behind ours", "itself"]
)
def test_an_agent_that_we_know_may_write_its_own_files_also_behind_a_program_of_ours(
    tmp_path: Path, words: list[str]
) -> None:
    spec = SessionSpec.of(cwd=str(tmp_path), mode="full-auto")
    made = Enclosure(spec, "worker:x", words, {"HOME": str(tmp_path)}, ())
    made.close()
    assert str(tmp_path / ".qwen") in made.asked.write


@pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
@pytest.mark.parametrize("prefix", ["worker", "sidecar"])
async def test_an_agent_of_ours_that_is_driven_in_a_repository_is_bound_by_claims_through_the_relay(
    tmp_path: Path, prefix: str
) -> None:
    top = checkout(tmp_path / "w")
    Claims(Planning(project=str(top)), str(top)).claim("haid:bob.box-0002", ["file.txt"], "T-1")
    (top / "script.toml").write_text(
        calls("write_file", {"file_path": "file.txt", "content": "theirs"})
        + calls("write_file", {"file_path": "free.txt", "content": "mine"})
        + says("Done.")
    )
    await played(prefix, SessionSpec(cwd=str(top), model="scripted:script.toml", mode="full-auto"))
    assert (top / "file.txt").read_text() == "one\n" and (top / "free.txt").read_text() == "mine"


@pytest.mark.skipif(not methods.available().network, reason="the network cannot be limited here")
async def test_where_the_network_is_limited_an_agent_reaches_its_model_and_nothing_else(tmp_path: Path) -> None:
    """Its model is a service on this machine, named by its base URL; another one listens beside it."""
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        command = f"curl -sS http://127.0.0.1:{port}/ -o out; echo x > here"
        replies = (
            ScriptedReply(call=(CallLine(name="bash", arguments={"command": command}),)),
            ScriptedReply(text="Done."),
        )
        async with ModelServer(Script(reply=replies)) as server:
            spec = SessionSpec(
                cwd=str(tmp_path),
                model="openai:scripted",
                mode="full-auto",
                confinement=Confinement(network="off"),
                env={"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{server.url}/v1"},
            )
            events = await played("worker", spec)
    assert [event.outcome for event in events if isinstance(event, TurnEnded)] == ["completed"]
    assert (tmp_path / "here").exists() and heard == []


def test_the_hosts_on_its_card_are_reached_where_the_network_is_limited_and_a_person_lists_more(tmp_path: Path) -> None:
    asked = SessionSpec(cwd=str(tmp_path), confinement=Confinement(use="on", network="off", hosts=("a.example",)))
    if can:
        made = enclosure(asked, "codex", ["codex"], {"HOME": str(tmp_path), "OPENAI_BASE_URL": "https://b.example/v1"})
        assert made is not None
        assert made.hosts == made.reaches == ("a.example", *cards()["codex"].hosts, "b.example")
        assert made.gate is not None and (made.gate._who, made.gate._hosts) == ("codex", made.hosts)
        made.close()


@pytest.mark.skipif(not methods.available().network, reason="the network cannot be limited here")
def test_what_a_person_should_know_about_the_network_is_said(tmp_path: Path) -> None:
    def made(network: str, mode: Any = "full-auto", **more: Any) -> tuple[str, tuple[str, ...], str]:
        spec = SessionSpec(cwd=str(tmp_path), mode=mode, confinement=Confinement(use="on", network=network))  # type: ignore[arg-type]
        options: dict[str, Any] = {
            "name": "codex",
            "argv": ["codex"],
            "env": {"HOME": str(tmp_path)},
            "hosts": (),
            **more,
        }
        found, warning = networked(spec, **options)
        return found.confinement.network, found.confinement.hosts, warning.message if warning is not None else ""

    model = cards()["codex"].hosts
    assert made("auto") == ("off", model, "") and made("auto", mode="suggest") == ("on", (), "")
    network, hosts, said = made("auto", name="mine", argv=["mine"])
    assert (network, hosts) == ("on", ()) and said.startswith("mine reaches every host")
    assert made("auto", mode="suggest", name="mine", argv=["mine"]) == ("on", (), "")
    assert made("off", name="mine", argv=["mine"], hosts=("h.example",)) == ("off", ("h.example",), "")
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text("")
    made("off")
    (tmp_path / ".codex" / "config.toml").write_text('base_url = "https://new.example"')
    assert made("off")[2].startswith("the settings of codex name new.example, which they did not")
    assert made("off", hosts=("new.example",)) == ("off", (*model, "new.example"), "")


def cage(
    tmp_path: Path, argv: list[str], name: str = "name", env: dict[str, str] | None = None, **spec: Any
) -> Enclosure:
    made = Enclosure(SessionSpec.of(**{"cwd": str(tmp_path), "mode": "full-auto", **spec}), name, argv, env or {}, ())
    made.close()
    return made


@pytest.mark.parametrize(
    ("name", "id", "session"),
    [
        ("acp:my agent/x", None, "acp-my-agent-x"),
        ("acp:x", "Mine 1", "Mine-1"),
        (":/", None, "agent"),
        ("x" * 150, None, "x" * 100),
    ],
)
def test_a_sandbox_is_named_plainly_by_its_session_or_its_agent(
    tmp_path: Path, name: str, id: str | None, session: str
) -> None:
    assert cage(tmp_path, ["other"], name, session_id=id)._session == session


def test_what_it_may_see_and_write_besides_its_workspace(tmp_path: Path) -> None:
    tool, plugin = tmp_path / "tool", tmp_path / "plugin"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    asked = Confinement(use="auto", write=("/given",), read_only=("/seen",), limits=ResourceLimits(processes=7))
    spec = {
        "confinement": asked,
        "limits": Limits(max_seconds=9.0),
        "instructions": Instructions(plugins=(str(plugin),)),
    }
    made = cage(tmp_path, ["codex"], env={"HOME": str(tmp_path / "home")}, **spec)
    own = str(tmp_path / "home" / ".codex")
    assert (made.asked.use, made.asked.write, made.own) == ("on", ("/given", own), f", {own}")
    assert "/seen" in made.asked.read_only and str(plugin) in made.asked.read_only
    assert (made.seconds, made.gate, made.reaches, made.asked.limits.processes) == (9.0, None, None, 7)
    assert os.stat(own).st_mode & 0o777 == 0o700
    servers = SessionSpec(cwd=str(tmp_path), tools=Toolset(servers={"s": {"command": str(tool)}}))
    seen = Enclosure(servers, "name", ["other"], {}, ())
    seen.close()
    assert [place for place in seen.asked.read_only if str(tool).startswith(place)]


def test_a_program_of_ours_reads_what_a_person_has_set_where_there_is_such_a_thing(tmp_path: Path) -> None:
    assert config_file() not in cage(tmp_path, ["treadle", "acp"]).asked.read_only
    Path(config_file()).parent.mkdir(parents=True, exist_ok=True)
    Path(config_file()).write_text("")
    assert config_file() in cage(tmp_path, ["python", "x", "/bin/treadle-worker"]).asked.read_only
    assert config_file() not in cage(tmp_path, ["python", "x", "y", "treadle"]).asked.read_only
    state = cage(tmp_path, ["treadle"], "acp:a b/c" + "d" * 60).asked.state
    assert state is not None and os.path.isdir(state)
    shown, _, key = os.path.basename(state).rpartition("-")
    assert shown == ("acp-a-b-c" + "d" * 60)[:40] and len(key) == 8
    assert cage(tmp_path, ["treadle"], "another").asked.state != state


def test_a_workspace_below_our_state_leaves_no_empty_directories_behind(tmp_path: Path) -> None:
    work = Path(state_dir()) / "trees" / "one"
    work.mkdir(parents=True)
    made = Enclosure(SessionSpec(cwd=str(work), mode="full-auto", add_dirs=(str(tmp_path),)), "n", ["treadle"], {}, ())
    assert made.asked.state is not None
    (inside := Path(made.asked.state) / "trees" / "one").mkdir(parents=True)
    made.close()
    assert not inside.parent.exists() and work.is_dir() and Path(made.asked.state).is_dir()


@pytest.mark.parametrize(
    ("argv", "use", "resume", "goes_on"),
    [
        (["treadle"], "auto", KEPT, True),
        (["treadle"], "auto", KEPT[:-1] + "0", False),
        (["treadle"], "auto", "../sessions", False),
        (["treadle"], "auto", None, False),
        (["treadle"], "off", KEPT, False),
        (["other"], "auto", KEPT, False),
        (["treadle"], "auto", "", False),
    ],
)
def test_a_session_that_was_kept_in_a_sandbox_goes_on_there(
    tmp_path: Path, argv: list[str], use: Any, resume: str | None, goes_on: bool
) -> None:
    (Path(_state("name")) / "sessions" / KEPT).mkdir(parents=True)
    spec = SessionSpec.of(cwd=str(tmp_path), mode="suggest", resume=resume, confinement=Confinement(use=use))
    assert _begun_confined(spec, "name", argv) is goes_on
    assert not _begun_confined(spec, "another", argv)


async def test_a_program_that_cannot_be_started_leaves_nothing_and_one_that_is_says_what_it_reaches(
    tmp_path: Path,
) -> None:
    if not can:
        return
    spec = SessionSpec(cwd=str(tmp_path), confinement=Confinement(use="on", network="off"))
    walls = enclosure(spec, "it", ["cat"], dict(os.environ))
    assert walls is not None

    def fails(*, confinement: Confinement | None, reaching: Reaching | None) -> Awaitable[Peer[Any, str]]:
        assert confinement is not None and reaching == walls.gate.reach  # type: ignore[union-attr]
        raise RuntimeError("not today")

    with pytest.raises(RuntimeError):
        await started(walls, fails)
    assert walls._closed

    def start(*, confinement: Confinement | None, reaching: Reaching | None) -> Awaitable[Peer[Any, str]]:
        return Peer.start(["cat"], Lines(), name="it", env=os.environ, cwd=str(tmp_path), confinement=confinement)

    for network, ending in (
        ("off", "It reaches only nothing; more with --network HOSTS, or on"),
        ("on", "--no-sandbox"),
    ):
        asked = replace(spec, confinement=Confinement(use="on", network=network))  # type: ignore[arg-type]
        walls = enclosure(asked, "it", ["cat"], dict(os.environ))
        assert walls is not None
        walls.warning = Warned(message="known once", code="network")
        told: list[Event] = []
        async with await started(walls, start) as peer:
            assert (peer.hint or "").endswith(ending) and is_sealed(peer) and peer.enclosed is walls
            assert walls._followed is not None and peer.watching is not None
            for _ in range(2):
                async with watched(peer, told.append):
                    pass
        assert [event.message for event in told if isinstance(event, Warned)] == ["known once"] and walls._closed
    peer = await started(None, start)
    assert not is_sealed(peer) and peer.hint is None and peer.enclosed is None
    async with peer, watched(peer, told.append):
        assert len(told) == 1
