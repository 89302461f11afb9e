"""A tool call of an outside agent, as its hook describes it, and the answer in the form that its program reads.

Hooks run before and after every call, so what judges it (`guard`) is loaded only where a claim can matter.
"""

from __future__ import annotations

import os

from treadle.coordination import repository
from treadle.coordination.planning import Planning, read_text
from treadle.errors import TreadleError
from treadle.light import Any, regex
from treadle.policy.guess import CallWrites
from treadle.wire.common.jsontext import dumps, loads

PROGRAMS = ("claude", "codex", "gemini", "qwen", "copilot", "opencode", "cursor")
_PATH = regex(r"""(?:~|\.\.|/)[^\s'"=;|&<>()]*""")
"""What could be a path out of the directory, in a command."""


class OutsideCall:
    """One tool call, as a program's hook describes it."""

    def __init__(self, program: str, given: dict[str, Any]) -> None:
        self.program = program
        self.event = str(given.get("hook_event_name") or "PreToolUse")
        self.session = str(given.get("session_id") or given.get("sessionId") or given.get("conversation_id") or "")
        roots = given.get("workspace_roots")
        self.cwd = str(given.get("cwd") or (roots[0] if isinstance(roots, list) and roots else "") or os.getcwd())
        self.tool = str(given.get("tool_name") or given.get("toolName") or given.get("tool") or "")
        self.does = CallWrites(self.tool, given.get("tool_input", given.get("toolArgs")))
        self.where = os.path.join(self.cwd, self.does.where)
        """The directory in which a command runs."""
        self.project = self.cwd
        """The worktree whose claims count."""
        self.is_over = self.event.lower().startswith(("post", "after"))
        """Whether it has run."""
        self.staged: list[str] | None = None
        """What is about to be committed, if that cannot be asked here."""

    def writes(self) -> list[str]:
        """The paths that the call itself names to be written, absolute."""
        return [os.path.join(self.cwd, path) for path in self.does.paths]


class HookAnswer:
    def __init__(self, reason: str = "", *, asks: bool = False, note: str = "") -> None:
        """`reason`: why the call is not simply allowed; `asks`: a person may still allow it; `note`: what its agent
        should know if it is allowed."""
        self.reason, self.asks, self.note = reason, asks, note


def to_judge(call: OutsideCall) -> tuple[bool, list[str]]:
    """Whether the claims of the worktree in which it is made can matter, and the other worktrees that it names."""
    tops = [] if call.is_over or call.project != call.cwd else _other_tops(call)
    session = f"{call.program}:{call.session}" if call.session else ""
    return not _is_free(Planning(project=call.project), session), tops


def _is_free(planning: Planning, session: str) -> bool:
    """Whether no one holds or waits for anything here, no call is under way, and this session is known: then there is
    nothing to judge, put back or tell. What cannot be read is not free."""
    if planning.blind():
        return False
    if not os.path.isdir(planning.live) and not planning.claimed():
        return True  # nothing was ever claimed or set up here
    if os.environ.get("HEIMDALL_HAID") or planning.live == planning.root:
        return False
    try:
        record = read_text(planning.record_path())
        if loads(record)["claims"] if record else os.path.exists(planning.live_path("recorded")):
            return False
        if _files(planning.claims) or _files(planning.live_path("waits")) or planning.shared():
            return False
        if '"revoked"' in (read_text(planning.live_path("ledger", "agents.json")) or ""):
            return False
        calls = map(read_text, _files(planning.private_path("calls")))
        known = [read_text(path) or "" for path in _files(planning.private_path("seats"))]
        mine = f'"session": {dumps(session)},'
        return all('"open":0,' in (call or "") for call in calls) and any(
            mine in one and '"pid"' in one for one in known
        )
    except (OSError, TreadleError, ValueError, KeyError, TypeError):
        return False


def _files(directory: str) -> list[str]:
    try:
        return [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".json")]
    except FileNotFoundError:
        return []


def _other_tops(call: OutsideCall) -> list[str]:
    """The worktrees that any word of its arguments lies in. There is no look at them after the call."""
    named = _PATH.findall(call.does.command) if call.does.command else call.does.mentioned(call.cwd)
    paths = [os.path.join(call.where, os.path.expanduser(path)) for path in [call.cwd, *named]]
    tops = [found[0] for path in [*paths, *call.writes()] if (found := _located(path))]
    own = _located(call.cwd)
    return [top for top in dict.fromkeys(tops) if not own or top != own[0]]


def _located(path: str) -> tuple[str, str] | None:
    try:
        return repository.locate(os.path.normpath(path))
    except (TreadleError, ValueError):
        return None


def answer(program: str, event: str, found: HookAnswer) -> dict[str, Any] | None:
    """What the hook prints: one form for five programs, and one for Cursor. None lets the call go on."""
    reason, verdict = found.reason, "ask" if found.asks else "deny"
    if reason and program == "cursor":
        return {"permission": verdict, "user_message": reason, "agent_message": reason}
    if reason:
        more = {"permissionDecision": verdict, "permissionDecisionReason": reason}
        block = {} if found.asks else {"decision": "block", "reason": reason}
        return {**block, "hookSpecificOutput": {"hookEventName": event, **more}}
    if found.note and program == "cursor":
        return {"additional_context": found.note}
    if found.note:
        shown = {"systemMessage": found.note} if found.note.startswith("While ") else {}
        return {**shown, "hookSpecificOutput": {"hookEventName": event, "additionalContext": found.note}}
    return {} if program == "cursor" else None  # Cursor may take silence for a no
