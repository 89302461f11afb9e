"""Enforces claims on outside agents: answers their hooks before and after a tool call, in the form that each reads.

A call is judged like one of our own agent's: what it writes is checked. What cannot be seen before is looked at
afterwards (`held_files`): what others hold is put back. Where a look would not show it, or too much is held, a person
is asked; a program that cannot ask has the call refused.
"""

import os
import re
import shlex

from treadle.coordination import repository
from treadle.coordination.bindings import IdentityBindings
from treadle.coordination.changes import CommandJudge
from treadle.coordination.claim import wait_text
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.held_files import HeldFiles
from treadle.coordination.identity import Key, checked, declared_process, given_process, root, starter
from treadle.coordination.planning import Planning
from treadle.light import Any
from treadle.wire.common.jsontext import loads

PROGRAMS = ("claude", "codex", "gemini", "qwen", "copilot", "opencode", "cursor")
_PATH_KEY = re.compile(r"path|file|dir|folder|glob|notebook|uri|^(source|destination|from|to|target)$", re.IGNORECASE)
_READS = set("read view get list search find grep glob ls stat show describe diff query lookup count tree lsp".split())
_NOUNS = set(
    "file files text lines range content contents code codebase directory directories dir dirs folder path paths info "
    "symbol symbols definition references diagnostics problems overview structure resource resources multiple many all "
    "git log status web notebook project in of for by with".split()
)
"""A tool that has only such words in its name, and one that reads, is a reader; all else is taken for a writer."""
_RUNS = re.compile(r"exec|run|eval|shell|terminal|process|repl|stdin|command|bash|script", re.I)
_CODE_KEY = re.compile(r"code|script|input|chars|expression|cmd_?line|commands|argv|shell_command|command_?line", re.I)
_LEDGER = {"make_claim", "release_claim", "append_decision", "raise_conflict_pr", "post_message", "set_fact", "brief"}
"""Tools that name files and change none."""
_MOST = 2000
"""How many arguments of a call are looked at."""
_WRITES = {
    *("write", "edit", "multiedit", "notebookedit", "create", "write_file", "replace", "edit_file", "notebook_edit"),
    *("apply_patch", "patch", "delete", "str_replace", "strreplace", "editnotebook", "str_replace_editor"),
}
"""File-writing tools of these programs, in lower case."""
_PATCH = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_DIFF = re.compile(r"^(?:\+\+\+ b/|--- a/|rename (?:from|to) )([^\t\n]+)", re.M)
_WHERE = ("dir_path", "workdir", "cwd", "working_directory", "directory")
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
        arguments = _unpacked(given.get("tool_input", given.get("toolArgs")))
        self.arguments: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
        inner = next((self.arguments[name] for name in _WHERE if isinstance(self.arguments.get(name), str)), "")
        self.where = os.path.join(self.cwd, inner)
        """The directory in which a command runs."""
        self.project = self.cwd
        """The worktree whose claims count."""
        self.is_over = self.event.lower().startswith(("post", "after"))
        """Whether it has run."""
        self.staged: list[str] | None = None
        """What is about to be committed, if that cannot be asked here."""

    @property
    def command(self) -> str:
        command, words = self.arguments.get("command", self.arguments.get("cmd")), self.arguments.get("args")
        if isinstance(command, list):
            return shlex.join(map(str, command))
        if command is not None:
            return f"{command} {shlex.join(map(str, words))}" if isinstance(words, list) else str(command)
        given = self.arguments.items() if _RUNS.search(self.tool) else ()
        return "\n".join(_script(key.lower(), value) for key, value in given if _CODE_KEY.fullmatch(key))

    def runs(self) -> str:
        """The command that it runs, unless it is a tool that writes files itself."""
        return self.command if self.tool.lower() not in _WRITES else ""

    def goes_on(self) -> str:
        """Why it may run on when the call is over, if its arguments say so."""
        behind = self.arguments.get("run_in_background") or self.arguments.get("is_background")
        return "what it does in the background" if behind else ""

    def writes(self) -> list[str]:
        """The paths that the call itself names to be written, absolute."""
        found = []
        where, arguments = self._without_place()
        if not self._only_reads():
            found += [text for key, text in _texts(arguments) if _PATH_KEY.search(key)]
        for key, text in self.arguments.items():
            if isinstance(text, str):
                found += patched(text) if "*** " in text else []
                found += _DIFF.findall(text) if key in ("patch", "diff") else []
        return [os.path.join(where, path) for path in dict.fromkeys(found)]

    def mentions(self) -> list[str]:
        """What else in the arguments of a tool that may write could be a path, absolute."""
        if self._only_reads() or self.runs():
            return []
        where, arguments = self._without_place()
        found = (os.path.normpath(os.path.join(where, text)) for _, text in _texts(arguments))
        return [path for path in dict.fromkeys(found) if not f"{self.cwd}/".startswith(f"{path}/")]

    def _only_reads(self) -> bool:
        name = self.tool.rpartition("__")[2]  # without the name of its server
        name = name.removeprefix("mcp_").partition("_")[2] if name.startswith("mcp_") else name
        words = set(re.findall("[a-z]+", re.sub("([a-z0-9])([A-Z])", r"\1 \2", name).lower()))
        return name in _LEDGER or bool(words & _READS) and words <= _READS | _NOUNS

    def _without_place(self) -> tuple[str, dict[str, Any]]:
        """Where it works, and the other arguments, unless that is all it names."""
        rest = {key: value for key, value in self.arguments.items() if key not in _WHERE}
        return (self.where, rest) if rest else (self.cwd, self.arguments)


def _script(key: str, value: Any) -> str:
    """Code that a tool is given, as a script of the shell."""
    if key in ("code", "expression"):
        return shlex.join(["python3", "-c", str(value)])  # in whichever language: what it writes is not seen
    if isinstance(value, list):
        return shlex.join(map(str, value)) if key == "argv" else "\n".join(map(str, value))
    return str(value)


def _unpacked(value: Any) -> Any:
    """What a text of JSON holds; else the value as it is."""
    try:
        return loads(value) if isinstance(value, str) and value[:1] in ("{", "[") else value
    except ValueError:
        return value


def _texts(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Every text of one line in the arguments with its key, however deep; a key is such a text, too."""
    found: list[tuple[str, str]] = []
    todo: list[tuple[str, Any]] = [("", arguments)]
    while todo and len(found) < _MOST:
        key, value = todo.pop()
        value = _unpacked(value)
        if isinstance(value, dict):
            found += [(key, _plain(str(name))) for name in value if "/" in str(name)]
            todo += [(str(name), one) for name, one in value.items()]
        elif isinstance(value, list):
            todo += [(key, one) for one in value]
        elif isinstance(value, str) and (text := _plain(value)) and "\n" not in text:
            found.append((key, text))
    return found


def _plain(text: str) -> str:
    """The path in a file's address, or the text itself."""
    text = text.strip()
    if text[:7].lower() != "file://":
        return text
    from urllib.parse import unquote

    return unquote("/" + text[7:].partition("/")[2])


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


def refusal(claims: Claims, held: HeldFiles, haid: str, call: OutsideCall) -> HookAnswer | None:
    writes, command, mentions = call.writes(), call.runs(), call.mentions()
    if not writes and not command and not mentions:
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
    own, process = claims.bindings.family(haid), _process(call)
    overlaps = claims.held_by_others(own, surfaces)
    judged = CommandJudge(claims, haid, call.where, call.staged, process)
    judged.judge(command)
    judged.weigh(mentions, lasts=True)
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
    looks = bool(command) and _looks(command)
    not_saved = held.begin("" if looks else judged.unseen)
    if not looks and judged.unseen and (why := judged.lasting or call.goes_on() or not_saved and judged.unseen):
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
