"""Enforces claims on outside agents: answers their hooks before and after a tool call, in the form that each reads.

A call is judged like one of our own agent's: what it writes is checked. What cannot be seen before is looked at
afterwards (`held_files`): what others hold is put back. Where a look would not show it, or too much is held, a person
is asked; a program that cannot ask has the call refused.
"""

import os
import re

from treadle.coordination import repository
from treadle.coordination.bindings import IdentityBindings
from treadle.coordination.changes import CommandJudge
from treadle.coordination.claim import wait_text
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.held_files import HeldFiles
from treadle.coordination.identity import Key, checked, declared_process, given_process, root, starter
from treadle.coordination.planning import Planning
from treadle.errors import TreadleError
from treadle.light import Any
from treadle.policy.guess import CallWrites

PROGRAMS = ("claude", "codex", "gemini", "qwen", "copilot", "opencode", "cursor")
_ASK = ("claude", "cursor")
"""The programs of which it is known that a hook can make them ask a person; in the others that lets the call run."""
_READS_NOTES = ("claude", "codex")
"""The programs that read a note along with an allowed call."""


_PATH = re.compile(r"""(?:~|\.\.|/)[^\s'"=;|&<>()]*""")
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


def judge(call: OutsideCall) -> HookAnswer:
    """By the claims of the worktree in which it is made, and then of each other one that it names."""
    found = _judge(call)
    if found.reason or call.is_over or call.project != call.cwd:
        return found
    return next(filter(None, (_elsewhere(call, top) for top in _other_tops(call))), found)


def _other_tops(call: OutsideCall) -> list[str]:
    """The worktrees that any word of its arguments lies in. There is no look at them after the call."""
    named = re.findall(_PATH, call.does.command) if call.does.command else call.does.mentioned(call.cwd)
    paths = [os.path.join(call.where, os.path.expanduser(path)) for path in [call.cwd, *named]]
    tops = [found[0] for path in [*paths, *call.writes()] if (found := _located(path))]
    own = _located(call.cwd)
    return [top for top in dict.fromkeys(tops) if not own or top != own[0]]


def _located(path: str) -> tuple[str, str] | None:
    try:
        return repository.locate(os.path.normpath(path))
    except (TreadleError, ValueError):
        return None


def _elsewhere(call: OutsideCall, top: str) -> HookAnswer | None:
    planning = Planning(project=top)
    return refusal(Claims(planning, top), None, identity(planning, call), call) if planning.claimed() else None


def _judge(call: OutsideCall) -> HookAnswer:
    planning = Planning(project=call.project)
    found = repository.find(call.project)
    top = found.top if found else planning.project
    claims = Claims(planning, top)
    if not os.path.isdir(planning.live) and not planning.claimed() and not planning.blind():
        return HookAnswer()  # nothing was ever claimed or set up here
    haid = identity(planning, call)
    if claims.agents.revoked(haid):
        return HookAnswer(f"{haid} is revoked and may do nothing")
    held = HeldFiles(claims, haid)
    news = "".join(f"{what}.\n" for what in held.end(late=not call.is_over))
    if news:
        news = f"While {'this call' if call.is_over else 'your last call'} ran:\n{news}Leave what others hold alone.\n"
    if call.is_over:
        return HookAnswer(note=news)
    claims.keep(haid)
    verdict = refusal(claims, held, haid, call) or HookAnswer(note=news + _note(claims, haid, call))
    if verdict.reason or news and call.program not in _READS_NOTES:
        verdict.reason = news + (verdict.reason or "This call was not run: make it again.")
    return verdict


def refusal(claims: Claims, held: HeldFiles | None, haid: str, call: OutsideCall) -> HookAnswer | None:
    writes, command, mentions = call.writes(), call.does.command, call.does.mentioned(call.cwd)
    if not writes and not command and not mentions:
        if held:
            held.begin()  # for its end is told like any other's
        return None
    if (unseen := claims.unseen()) and (writes or command and not _looks(command)):
        return HookAnswer(f"what others hold cannot be seen: {'; '.join(unseen)}")
    surfaces = [
        surface
        for path in writes
        for glob in (False, True)[: 2 if re.search(r"[*?\[{]", path) and not os.path.lexists(path) else 1]
        for surface in claims.surfaces_at(path, glob)
    ]
    overlaps = claims.held_by_others(claims.bindings.family(haid), surfaces)
    judged = CommandJudge(claims, haid, call.where, call.staged)
    judged.judge(command)
    judged.weigh(mentions, lasts=True)
    if judged.others and any(map(claims.planning.is_ours, writes)):
        return HookAnswer("git's own files and the record of claims are not an agent's to write")
    overlaps += judged.overlaps
    if overlaps:
        asked = sorted({overlap.asked for overlap in overlaps})
        claims.waits.put(haid, asked, call.tool, [overlap.claim.haid for overlap in overlaps])
        return HookAnswer(
            f"{Collision(overlaps, 'change').message}\nYou are {haid}. Work on something else, or make_claim it later:"
            " the holder is told that you wait."
        )
    if not judged.others:  # nothing can be met, and the command need not be read
        if held:
            held.begin()
        return None
    looks = bool(command) and _looks(command)
    not_saved = held.begin("" if looks else judged.unseen) if held else judged.unseen
    if not looks and judged.unseen and (why := judged.lasting or call.does.goes_on or not_saved and judged.unseen):
        return HookAnswer(
            f"others hold files here, and the command does not show {why}. Name the files plainly in it,"
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
    if found.note and program == "cursor":
        return {"additional_context": found.note}
    if found.note:
        shown = {"systemMessage": found.note} if found.note.startswith("While ") else {}
        return {**shown, "hookSpecificOutput": {"hookEventName": event, "additionalContext": found.note}}
    return {} if program == "cursor" else None  # Cursor may take silence for a no
