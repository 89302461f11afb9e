"""Enforces claims on outside agents: answers their hook before a tool call, in the form that each of them reads.

A call is judged like one of our own agent's: what it writes is checked. If that cannot be seen while others hold
something, a person is asked; a program that cannot ask has the call refused. What the project's own code does when it
runs, in tests for example, is not seen here: only a sandbox holds that.
"""

import os
import re

from treadle.coordination import repository
from treadle.coordination.bindings import IdentityBindings
from treadle.coordination.changes import CommandJudge
from treadle.coordination.claim import wait_text
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.identity import Key, checked, declared_process, given_process, root, starter
from treadle.coordination.planning import Planning
from treadle.light import Any

PROGRAMS = ("claude", "codex", "gemini", "qwen", "copilot", "opencode", "cursor")
_PATH_KEY = re.compile(r"path|file|dir|folder|notebook|uri|^(source|destination|from|to|target)$", re.IGNORECASE)
_READS = re.compile(
    r"read|view|get|list|search|find|grep|glob|^ls$|open|stat|fetch|show|describe|diff|query|lookup|count|tree", re.I
)
_CHANGES = re.compile(
    r"write|edit|create|delete|remove|move|rename|replace|insert|patch|append|save|put|copy|update|overwrite|truncate"
    r"|format|refactor|apply|generate|exec|run",
    re.I,
)
_LEDGER = {"make_claim", "release_claim", "append_decision", "raise_conflict_pr", "post_message", "set_fact", "brief"}
"""Tools that name files and change none. What else is not plainly a reader is taken for a writer."""
_MOST = 2000
"""How many arguments of a call are looked at."""
_WRITES = {
    *("write", "edit", "multiedit", "notebookedit", "create", "write_file", "replace", "edit_file", "notebook_edit"),
    *("apply_patch", "patch", "delete", "str_replace", "strreplace", "editnotebook", "str_replace_editor"),
}
"""File-writing tools of these programs, in lower case."""
_PATCH = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_WHERE = ("dir_path", "workdir", "cwd", "working_directory")
_ASK = ("claude", "cursor")
"""The programs of which it is known that a hook can make them ask a person; in the others that lets the call run."""
_READS_NOTES = ("claude", "codex")
"""The programs that read a note along with an allowed call."""


class OutsideCall:
    """One tool call, as a program's hook describes it."""

    def __init__(self, program: str, given: dict[str, Any]) -> None:
        self.program = program
        self.event = str(given.get("hook_event_name") or "PreToolUse")
        self.session = str(given.get("session_id") or given.get("sessionId") or given.get("conversation_id") or "")
        roots = given.get("workspace_roots")
        self.cwd = str(given.get("cwd") or (roots[0] if isinstance(roots, list) and roots else "") or os.getcwd())
        self.tool = str(given.get("tool_name") or given.get("toolName") or given.get("tool") or "")
        arguments = given.get("tool_input", given.get("toolArgs"))
        self.arguments: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
        inner = next((self.arguments[name] for name in _WHERE if isinstance(self.arguments.get(name), str)), "")
        self.where = os.path.join(self.cwd, inner)
        """The directory in which a command runs."""
        self.project = self.cwd
        """The worktree whose claims count."""
        self.staged: list[str] | None = None
        """What is about to be committed, if that cannot be asked here."""

    @property
    def command(self) -> str:
        command = self.arguments.get("command", self.arguments.get("cmd", ""))
        return " ".join(map(str, command)) if isinstance(command, list) else str(command)

    def runs(self) -> str:
        """The command that it runs, unless it is a tool that writes files itself."""
        return self.command if self.tool.lower() not in _WRITES else ""

    def writes(self) -> list[str]:
        """The paths that the call itself names to be written, absolute."""
        found = []
        name = self.tool.rpartition("__")[2]  # without the name of its server
        if self.tool.lower() in _WRITES or name not in _LEDGER and (_CHANGES.search(name) or not _READS.search(name)):
            found += _named({key: value for key, value in self.arguments.items() if key not in _WHERE})
        patches = (text for text in self.arguments.values() if isinstance(text, str) and "*** " in text)
        found += [name for text in patches for name in patched(text)]
        return [os.path.join(self.where, path) for path in dict.fromkeys(found)]


def _named(arguments: dict[str, Any]) -> list[str]:
    """Every text in the arguments, however deep, whose key says that it is a path."""
    found: list[str] = []
    todo: list[tuple[str, Any]] = [("", arguments)]
    while todo and len(found) < _MOST:
        key, value = todo.pop()
        if isinstance(value, dict):
            todo += [(str(name), one) for name, one in value.items()]
        elif isinstance(value, list):
            todo += [(key, one) for one in value]
        elif isinstance(value, str) and value and "\n" not in value and _PATH_KEY.search(key):
            found.append(value.removeprefix("file://"))
    return found


def patched(text: str) -> list[str]:
    """The files that a patch in Codex's format changes."""
    found = []
    for line in text.splitlines():
        for mark in _PATCH:
            if line.lstrip().startswith(mark):
                found.append(line.lstrip().removeprefix(mark).strip())
    return found


class HookAnswer:
    def __init__(self, reason: str = "", *, asks: bool = False, note: str = "") -> None:
        """`reason`: why the call is not simply allowed; `asks`: a person may still allow it; `note`: what its agent
        should know if it is allowed."""
        self.reason, self.asks, self.note = reason, asks, note


def judge(call: OutsideCall) -> HookAnswer:
    planning = Planning(project=call.project)
    found = repository.find(call.project)
    top = found.top if found else planning.project
    claims = Claims(planning, top)
    if not os.path.isdir(planning.live) and not planning.blind():
        return HookAnswer()  # nothing was ever claimed or set up here
    haid = identity(planning, call)
    if claims.agents.revoked(haid):
        return HookAnswer(f"{haid} is revoked and may do nothing")
    claims.keep(haid)
    return refusal(claims, haid, call) or HookAnswer(note=_note(claims, haid, call))


def refusal(claims: Claims, haid: str, call: OutsideCall) -> HookAnswer | None:
    writes, command = call.writes(), call.runs()
    if not writes and not command:
        return None
    if (unseen := claims.unseen()) and (writes or not _looks(command)):
        return HookAnswer(f"what others hold cannot be seen: {'; '.join(unseen)}")
    surfaces = [surface for path in writes for surface in claims.surfaces_at(path)]
    own, process = claims.bindings.family(haid), _process(call)
    overlaps = claims.held_by_others(own, surfaces)
    judged = CommandJudge(claims, haid, call.where, call.staged, process)
    judged.judge(command)
    if judged.others and any(map(claims.planning.is_ours, writes)):
        return HookAnswer("git's own files and the record of claims are not an agent's to write")
    overlaps += judged.overlaps
    if not overlaps and not judged.unseen:
        overlaps = claims.leases.take(haid, own, [*writes, *judged.written], process)
    if overlaps:
        asked = sorted({overlap.asked for overlap in overlaps})
        claims.waits.put(haid, asked, call.tool, [overlap.claim.haid for overlap in overlaps])
        return HookAnswer(
            f"{Collision(overlaps, 'change').message}\nYou are {haid}. Work on something else, or make_claim it later:"
            " the holder is told that you wait."
        )
    if judged.unseen:
        return HookAnswer(
            f"others hold files here, and the command does not show {judged.unseen}. Name the files plainly in it,"
            f" or use the tool for editing files. You are {haid}.",
            asks=call.program in _ASK,
        )
    return None


def _looks(command: str) -> bool:
    from treadle.policy import shell
    from treadle.policy.writes import only_looks

    return only_looks(shell.read(command))


def identity(planning: Planning, call: OutsideCall) -> str:
    """The identity that makes the call. The session that the hook names has the same identity in everything it does."""
    if declared := os.environ.get("HEIMDALL_HAID"):
        return checked(declared)
    bindings = IdentityBindings(planning, "")
    key = f"{call.program}:{call.session}" if call.session else ""
    process = _process(call)
    if found := bindings.recognise([key] if key else [], [process] if process else []):
        if found.key == key or not key:
            return found.haid
    bindings.root = root(planning.project)
    return bindings.enter(call.program, key or f"{call.program}:{process}", process)


def _process(call: OutsideCall) -> Key | None:
    declared = given_process(os.environ) if os.environ.get("HEIMDALL_HAID") else None
    return declared or declared_process(os.environ, call.program) or starter()


def _note(claims: Claims, haid: str, call: OutsideCall) -> str:
    """Who waits for something that the agent holds, and what it waited for itself and is free. Each is told once."""
    if call.program not in _READS_NOTES:
        return ""
    waiting = [wait for wait in claims.waits.on(haid) if haid not in wait.get("told", ())]
    for wait in waiting:
        claims.waits.mark_notified(wait, haid)
    lines = [f"{wait_text(wait)}. Release it as soon as you are done with it." for wait in waiting]
    if free := claims.freed(haid):
        lines.append(f"What you waited for is free now: {' '.join(free)}. Claim it before you change it.")
    return "\n".join(lines)


def answer(program: str, event: str, found: HookAnswer) -> dict[str, Any] | None:
    """What the hook prints: one form for five programs, and one for Cursor. None lets the call go on."""
    reason, verdict = found.reason, "ask" if found.asks else "deny"
    if reason and program == "cursor":
        return {"permission": verdict, "user_message": reason, "agent_message": reason}
    if reason:
        more = {"permissionDecision": verdict, "permissionDecisionReason": reason}
        block = {} if found.asks else {"decision": "block", "reason": reason}
        return {**block, "hookSpecificOutput": {"hookEventName": event, **more}}
    if found.note:
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": found.note}}
    return {} if program == "cursor" else None  # Cursor may take silence for a no
