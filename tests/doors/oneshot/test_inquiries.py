"""Control requests that only ask, or change little, answered by a session of our own agent."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from treadle.agent.native import NativeAgent
from treadle.agent.session import NativeSession
from treadle.doors.oneshot.input import Inquiries
from treadle.errors import ConfigError, NotFound
from treadle.session import Rules, SessionSpec


@pytest.fixture
async def session(tmp_path: Path, state_home: Path) -> AsyncIterator[NativeSession]:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_bytes(b"hello \xff")
    (tmp_path / "script.toml").write_text('[[reply]]\ntext = "hi"\n')
    rules = Rules(deny=("Bash(rm:*)",))
    spec = SessionSpec.of(cwd=str(tmp_path / "work"), model=f"scripted:{tmp_path / 'script.toml'}", rules=rules)
    opened = await NativeAgent({}).open(spec)
    assert isinstance(opened, NativeSession)
    yield opened
    await opened.close()


async def ask(session: NativeSession, subtype: str, **given: Any) -> Any:
    return await Inquiries(session).answer({"subtype": subtype, **given})


FIELDS: dict[str, set[str]] = {
    "get_binary_version": {"version", "buildTime"},
    "get_session_cost": {"text"},
    "list_models": {"models"},
    "reload_output_styles": {"available_output_styles"},
    "reload_skills": {"skills"},
    "reload_plugins": {"commands", "agents", "plugins", "mcpServers", "error_count"},
    "background_tasks": {"backgrounded"},
    "set_has_subscribers": set(),
    "seed_read_state": set(),
    "file_suggestions": {"suggestions", "cwd"},
}


async def test_each_has_claudes_fields(session: NativeSession) -> None:
    answers = {subtype: await ask(session, subtype) for subtype in FIELDS}
    assert {subtype: set(answer) for subtype, answer in answers.items()} == FIELDS
    assert answers["get_binary_version"]["version"] and answers["get_session_cost"]["text"]
    assert answers["reload_plugins"]["mcpServers"] == [] and answers["reload_plugins"]["error_count"] == 0


async def test_another_kind_of_request_is_not_answered(session: NativeSession) -> None:
    assert await ask(session, "side_question", question="why?") is None


async def test_a_file_that_the_agent_may_read_is_read_for_the_host(session: NativeSession, tmp_path: Path) -> None:
    told = await ask(session, "read_file", path="a.txt")
    assert (told["contents"], told["lossy"], told["requested_path"]) == ("hello \ufffd", True, "a.txt")
    assert (await ask(session, "read_file", path="a.txt", max_bytes=2))["contents"] == "he"
    for path in ("nowhere.txt", "../script.toml", "/etc/shadow"):
        with pytest.raises(NotFound):
            await ask(session, "read_file", path=path)


async def test_rules_are_listed_and_added_and_what_cannot_be_changed_is_refused(session: NativeSession) -> None:
    await ask(session, "apply_flag_settings", settings={"permissions": {"allow": ["Bash(ls)"], "defaultMode": "plan"}})
    state = (await ask(session, "list_permission_rules"))["state"]
    assert {(one["behavior"], one["rule"]) for one in state["rules"]} == {("deny", "Bash(rm:*)"), ("allow", "Bash(ls)")}
    assert (state["originalCwd"], session.mode) == (session.spec.cwd, "plan")
    with pytest.raises(ConfigError, match=r"env, permissions\.x"):
        await ask(session, "apply_flag_settings", settings={"env": {}, "permissions": {"x": 1}})


async def test_a_session_gets_its_name(session: NativeSession) -> None:
    assert await ask(session, "rename_session", title="the heron", source="host") == {}
    assert session.transcript.listing.name == "the heron"


async def test_files_are_suggested_by_a_part_of_their_names(session: NativeSession) -> None:
    found = await ask(session, "file_suggestions", query="A.")
    assert found == {"suggestions": [{"path": "a.txt"}], "cwd": session.place()}
    assert (await ask(session, "file_suggestions", query="nowhere"))["suggestions"] == []


async def test_a_file_is_read_as_far_as_is_wanted_and_settings_must_be_settings(session: NativeSession) -> None:
    for wanted, contents in (
        (0, "hello \ufffd"),
        (-1, "hello \ufffd"),
        ("2", "hello \ufffd"),
        (5, "hello"),
        (7, "hello \ufffd"),
    ):
        told = await ask(session, "read_file", path="a.txt", max_bytes=wanted)
        assert told["contents"] == contents and told["lossy"] is ("\ufffd" in contents)
        assert told["absPath"].endswith("/work/a.txt")
    with pytest.raises(NotFound, match="nowhere.txt"):
        await ask(session, "read_file", path="nowhere.txt")
    for wrong in ("x", None, []):
        with pytest.raises(ConfigError, match="settings must be an object"):
            await ask(session, "apply_flag_settings", settings=wrong)
    await ask(session, "apply_flag_settings", settings={"permissions": {"ask": ["Bash(a)"], "deny": ["Bash(b)"]}})
    rules = (await ask(session, "list_permission_rules"))["state"]["rules"]
    assert {("ask", "Bash(a)"), ("deny", "Bash(b)")} <= {(one["behavior"], one["rule"]) for one in rules}
