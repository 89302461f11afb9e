"""Enforces claims on outside agents: answers their hook before a tool call, in the form that each of them reads.

A call is judged like one of our own agent's: what it will certainly write is checked, and what cannot be foreseen is
left to the check at commit time.
"""

import os
from collections.abc import Iterator

from treadle.coordination import changes, origin, repository
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.identity import checked, root
from treadle.coordination.planning import Planning
from treadle.coordination.seats import Seats
from treadle.coordination.surfaces import Surface
from treadle.coordination.waits import told
from treadle.light import Any

PROGRAMS = ("claude", "codex", "gemini", "qwen", "copilot", "opencode", "cursor")
_PATHS = ("file_path", "path", "filePath", "notebook_path", "absolute_path", "target_file")
_WRITES = {
    *("write", "edit", "multiedit", "notebookedit", "create", "write_file", "replace", "edit_file", "notebook_edit"),
    *("apply_patch", "patch", "delete", "str_replace", "strreplace", "editnotebook", "str_replace_editor"),
}
"""File-writing tools of these programs, in lower case."""
_PATCH = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_READS_NOTES = ("claude", "codex")
"""The programs that read a note along with an allowed call."""


class OutsideCall:
    """One tool call, as a program's hook describes it."""

    def __init__(self, program: str, said: dict[str, Any]) -> None:
        self.program = program
        self.event = str(said.get("hook_event_name") or "PreToolUse")
        self.session = str(said.get("session_id") or said.get("sessionId") or said.get("conversation_id") or "")
        roots = said.get("workspace_roots")
        self.cwd = str(said.get("cwd") or (roots[0] if isinstance(roots, list) and roots else "") or os.getcwd())
        self.tool = str(said.get("tool_name") or said.get("toolName") or said.get("tool") or "")
        arguments = said.get("tool_input", said.get("toolArgs"))
        self.arguments: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
        self.project = self.cwd
        """The worktree whose claims count."""
        self.staged: list[str] | None = None
        """What is about to be committed, if that cannot be asked here."""

    @property
    def command(self) -> str:
        command = self.arguments.get("command", self.arguments.get("cmd", ""))
        return " ".join(map(str, command)) if isinstance(command, list) else str(command)

    def commits(self) -> bool:
        """Whether it makes a commit that git's hooks do not see."""
        return self.program == "gemini" and "git" in self.command and "commit" in self.command

    def writes(self) -> list[str]:
        """The absolute paths that the call will certainly write."""
        found = [str(self.arguments[name]) for name in _PATHS if isinstance(self.arguments.get(name), str)]
        if self.tool.lower() not in _WRITES:
            found = list(self._written_by_command()) if self.command else []
        patches = (text for text in self.arguments.values() if isinstance(text, str) and "*** " in text)
        found += [name for text in patches for name in patched(text)]
        return [os.path.realpath(os.path.join(self.cwd, path)) for path in dict.fromkeys(found)]

    def _written_by_command(self) -> Iterator[str]:
        from treadle.policy import shell

        yield from shell.read(self.command).writes


def patched(text: str) -> list[str]:
    """The files that a patch in Codex's format changes."""
    found = []
    for line in text.splitlines():
        for mark in _PATCH:
            if line.lstrip().startswith(mark):
                found.append(line.lstrip().removeprefix(mark).strip())
    return found


def judge(call: OutsideCall) -> tuple[str, str]:
    """Why the call is refused, and a note for its agent; each is empty if there is none."""
    planning = Planning(project=call.project)
    found = repository.find(call.project)
    top = found.top if found else planning.project
    claims = Claims(planning, top, once=True)
    if not planning.claimed() and not planning.blind():
        return "", ""
    writes = call.writes()
    haid = identity(planning, call)
    if claims.agents.revoked(haid):
        return f"{haid} is revoked and may do nothing", ""
    claims.keep(haid)
    return refusal(claims, haid, call, writes), _note(claims, haid, call)


def refusal(claims: Claims, haid: str, call: OutsideCall, writes: list[str]) -> str:
    commits = call.commits()
    if not writes and not commits:
        return ""
    if unseen := claims.unseen():
        return f"what others hold cannot be seen: {'; '.join(unseen)}"
    inside = (os.path.relpath(path, claims.top) for path in writes)
    surfaces = [Surface.of(path, claims.top) for path in inside if path != ".." and not path.startswith("../")]
    overlaps = claims.held_by_others(claims.seats.family(haid), surfaces)
    if not overlaps and commits:  # its shell disables git's hooks, so the hooks' check is done here
        staged = changes.staged(call.cwd) if call.staged is None else call.staged
        overlaps = changes.overlaps(claims, haid, staged)
    if not overlaps:
        return ""
    claims.waits.put(haid, sorted({overlap.asked for overlap in overlaps}), call.tool, [o.claim.haid for o in overlaps])
    return (
        f"{Collision(overlaps, 'change').message}\nYou are {haid}. Work on something else, or make_claim it later:"
        " the holder is told that you wait."
    )


def identity(planning: Planning, call: OutsideCall) -> str:
    """The identity that makes the call. The session that the hook names has the same identity in everything it does."""
    if declared := os.environ.get("HEIMDALL_HAID"):
        return checked(declared)
    seats = Seats(planning, "")
    key = f"{call.program}:{call.session}" if call.session else ""
    process = origin.declared_process(os.environ, call.program) or origin.starter()
    if seat := seats.recognise([key] if key else [], [process] if process else []):
        if seat.key == key or not key:
            return seat.haid
    seats.root = root(planning.project)
    return seats.enter(call.program, key or f"{call.program}:{process}", process)


def _note(claims: Claims, haid: str, call: OutsideCall) -> str:
    """Who waits for something that the agent holds. Each wait is reported once."""
    if call.program not in _READS_NOTES:
        return ""
    waiting = [wait for wait in claims.waits.on(haid) if haid not in wait.get("told", ())]
    for wait in waiting:
        claims.waits.mark_told(wait, haid)
    lines = [f"{told(wait)}. Release it as soon as you are done with it." for wait in waiting]
    return "\n".join(lines)


def answer(program: str, event: str, reason: str, note: str) -> dict[str, Any] | None:
    """What the hook prints: one form for five programs, and one for Cursor. None lets the call go on."""
    if reason and program == "cursor":
        return {"permission": "deny", "user_message": reason, "agent_message": reason}
    if reason:
        more = {"permissionDecision": "deny", "permissionDecisionReason": reason}
        return {"decision": "block", "reason": reason, "hookSpecificOutput": {"hookEventName": event, **more}}
    if note:
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": note}}
    return {} if program == "cursor" else None  # Cursor may take silence for a no
