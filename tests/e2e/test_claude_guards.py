"""What people forbid in Claude Code's files, plugins and SDK is forbidden here, behind its own Python SDK."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest

from tests.differential.driving import DONE, Seen, calling, drive

TOUCH = calling("Bash", command="touch made", description="Make it") + DONE
NO = "cat > /dev/null; echo $CLAUDE_PLUGIN_ROOT says no >&2; exit 2"
DENYING = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": NO}]}]}
ALLOWING = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
NO_BYPASS = json.dumps({"permissions": {"disableBypassPermissionsMode": "disable"}})


def made(seen: Seen) -> bool:
    return (seen.work / "made").exists()


def results(seen: Seen) -> list[Any]:
    return [block.content for block in seen.blocks(sdk.ToolResultBlock)]


async def streamed(text: str = "go") -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None}


async def test_settings_that_forbid_to_skip_permissions_refuse_the_mode_at_the_start_and_later(tmp_path: Path) -> None:
    seen = await drive("treadle", tmp_path / "a", TOUCH, settings=NO_BYPASS, permission_mode="bypassPermissions")
    assert not made(seen) and any("the settings forbid skipping all permissions" in line for line in seen.said)

    async def later(client: Any, seen: Seen) -> None:
        await client.set_permission_mode("bypassPermissions")

    seen = await drive("treadle", tmp_path / "b", TOUCH, settings=NO_BYPASS, then=later)
    assert not made(seen) and any("the settings forbid skipping all permissions" in line for line in seen.said)


@pytest.mark.parametrize("place", ["hooks/hooks.json", "named.json", "manifest"])
async def test_a_plugin_s_denying_hook_denies(place: str, tmp_path: Path) -> None:
    plugin = tmp_path / "plug"
    manifest: dict[str, Any] = {"name": "plug"}
    if place == "manifest":
        manifest["hooks"] = DENYING
    else:
        (plugin / place).parent.mkdir(parents=True)
        (plugin / place).write_text(json.dumps({"hooks": DENYING}))
        manifest |= {} if place.startswith("hooks/") else {"hooks": "./named.json"}
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text(json.dumps(manifest))
    (plugin / ".mcp.json").write_text("{}")
    given: dict[str, Any] = {"plugins": [{"type": "local", "path": str(plugin)}]}
    seen = await drive("treadle", tmp_path / "home", TOUCH, permission_mode="bypassPermissions", **given)
    assert not made(seen) and f"{plugin} says no" in str(results(seen))
    assert any(f"the plugin {plugin}: not used here: .mcp.json" in line for line in seen.said)


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("hooks/hooks.json", {"hooks": {"PreToolUse": [{"hooks": [{"type": "agent"}]}]}}, "may forbid something"),
        (".claude-plugin/plugin.json", {"hooks": ["./gone.json"]}, "gone.json is not there, and the plugin names it"),
    ],
)
async def test_a_plugin_s_hook_that_cannot_be_run_and_might_forbid_refuses_the_run(
    file: str, text: Any, says: str, tmp_path: Path
) -> None:
    plugin = tmp_path / "plug"
    (plugin / file).parent.mkdir(parents=True)
    (plugin / file).write_text(json.dumps(text))
    given: dict[str, Any] = {"plugins": [{"type": "local", "path": str(plugin)}]}
    seen = await drive("treadle", tmp_path / "home", TOUCH, permission_mode="bypassPermissions", **given)
    assert not made(seen) and any(says in line for line in seen.said)


@pytest.mark.parametrize("host", ["deny", "allow", "absent"])
async def test_a_hook_that_allows_does_not_overrule_the_host(host: str, tmp_path: Path) -> None:
    asked: list[str] = []

    async def decide(name: str, given: Any, context: Any) -> Any:
        asked.append(name)
        return sdk.PermissionResultDeny(message="the host says no") if host == "deny" else sdk.PermissionResultAllow()

    hook = {"type": "command", "command": f"cat > /dev/null; echo '{json.dumps(ALLOWING)}'"}
    settings = json.dumps({"hooks": {"PermissionRequest": [{"hooks": [hook]}]}})
    given: dict[str, Any] = {} if host == "absent" else {"can_use_tool": decide}
    seen = await drive("treadle", tmp_path, TOUCH, streamed(), settings=settings, **given)
    assert made(seen) is (host != "deny") and asked == ([] if host == "absent" else ["Bash"])


@pytest.mark.parametrize("place", ["claude/settings.json", ".claude/settings.json", "option"])
async def test_a_setting_that_forbids_and_cannot_be_kept_refuses_the_run(place: str, tmp_path: Path) -> None:
    text = json.dumps({"deniedMcpServers": [{"serverName": "x"}]})
    given: dict[str, Any] = {"settings": text} if place == "option" else {"files": {place: text}}
    seen = await drive("treadle", tmp_path, TOUCH, setting_sources=["user", "project"], **given)
    assert seen.told == [] and any("deniedMcpServers may forbid something" in line for line in seen.said)


@pytest.mark.parametrize("place", ["claude/settings.json", "option", "nowhere"])
async def test_a_server_of_the_project_that_a_person_turned_off_is_not_started(place: str, tmp_path: Path) -> None:
    text = json.dumps({"disabledMcpjsonServers": ["marks"]})
    server = {"command": "sh", "args": ["-c", "touch made"]}
    files = {".mcp.json": json.dumps({"mcpServers": {"marks": server}})}
    given: dict[str, Any] = {"settings": text} if place == "option" else {}
    files |= {place: text} if place.startswith("claude/") else {}
    sources: list[Any] = ["user", "project"]
    seen = await drive(
        "treadle", tmp_path, DONE, files=files, setting_sources=sources, extra_args={"trust": None}, **given
    )
    assert seen.result is not None and made(seen) is (place == "nowhere")


async def test_what_the_sandbox_of_claude_code_hides_is_not_read(tmp_path: Path) -> None:
    files = {
        "a.txt": "heron",
        ".claude/settings.json": json.dumps({"sandbox": {"filesystem": {"denyRead": ["./a.txt"]}}}),
    }
    script = calling("Read", file_path="{work}/a.txt") + DONE
    seen = await drive("treadle", tmp_path, script, files=files, setting_sources=["project"])
    assert seen.failed == [True] and not seen.reached("heron")


async def test_a_skill_that_is_reserved_for_people_is_neither_offered_to_the_model_nor_loaded_by_it(
    tmp_path: Path,
) -> None:
    header = "name: hush\ndescription: about herons\ndisable-model-invocation: true"
    files = {".claude/skills/hush/SKILL.md": f"---\n{header}\n---\nWhisper it.\n"}
    script = calling("Skill", name="hush") + DONE
    seen = await drive("treadle", tmp_path / "a", script, files=files, setting_sources=["project"])
    assert not seen.reached("about herons") and not seen.reached("Whisper it")
    assert "the skill 'hush' is reserved for people" in str(results(seen)) and "/hush" in str(results(seen))
    typed = await drive("treadle", tmp_path / "b", DONE, "/hush", files=files, setting_sources=["project"])
    assert typed.reached("Whisper it")


@pytest.mark.slow
async def test_a_session_that_the_sdk_deleted_is_not_resumed_and_its_fork_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = '[[reply]]\ntext = "noted"\n[[reply]]\ntext = "again"\n' + DONE
    seen = await drive("treadle", tmp_path, script, "remember the heron", "and the otter")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    place, known = str(seen.work), seen.result.session_id
    said = await asyncio.to_thread(sdk.get_session_messages, known, directory=place)
    whole = await asyncio.to_thread(sdk.fork_session, known, directory=place)
    part = await asyncio.to_thread(sdk.fork_session, known, directory=place, up_to_message_id=said[1].uuid)
    await asyncio.to_thread(sdk.delete_session, known, directory=place)
    for which, remembered in ((whole.session_id, (True, True)), (part.session_id, (True, False))):
        again = await drive_again(seen, resume=which)
        assert (again.reached("the heron"), again.reached("the otter")) == remembered
        assert again.result.session_id == which
    gone = await drive_again(seen, resume=known)
    assert gone.told == [] and any("it was deleted" in line for line in gone.said)
    others = await drive_again(seen, continue_conversation=True)
    assert others.result.session_id in (whole.session_id, part.session_id)


async def drive_again(before: Seen, **given: Any) -> Seen:
    """In the same home and directory."""
    again = Seen.__new__(Seen)
    again.__dict__ |= {**before.__dict__, "messages": [], "told": [], "said": [], "facts": {}}
    return await drive("treadle", before.home, DONE, "go on", seen=again, **given)
