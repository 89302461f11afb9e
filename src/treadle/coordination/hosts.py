"""What each outside agent needs in order to use claims and be bound by them: an MCP entry, a hook, a text to read; and
how such entries are added to others' files and removed.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from hashlib import sha256

from treadle.coordination import repository
from treadle.coordination.ledger import Blackboard, Ledger, Symbols
from treadle.coordination.planning import Planning, make_dirs, read_text, write_text
from treadle.errors import ConfigError
from treadle.io.files import open_append
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.heimdall.messages import schema

# Adds our entries to files that belong to others, shows the change beforehand, and can remove it without a trace.
#
# The original content of a file is remembered. If no one has changed the file since, it is restored byte for byte;
# otherwise only our entry is removed from it.


class FileEdit:
    def __init__(self, path: str) -> None:
        self.path = path

    def put(self, text: str | None) -> str:
        """The content of the file with our entry; `text` is None when there is no file."""
        raise NotImplementedError

    def cut(self, text: str) -> str | None:
        """The content of the file without our entry; None when nothing is left."""
        raise NotImplementedError


class OwnFile(FileEdit):
    """A file that is entirely ours."""

    def __init__(self, path: str, content: str) -> None:
        super().__init__(path)
        self.content = content

    def put(self, text: str | None) -> str:
        return self.content

    def cut(self, text: str) -> str | None:
        return None


class Block(FileEdit):
    """Lines of text between two marker lines that say whose they are."""

    def __init__(self, path: str, begin: str, end: str, body: str) -> None:
        super().__init__(path)
        self.begin, self.end = begin, end
        self.body = body

    def put(self, text: str | None) -> str:
        block = f"{self.begin}\n{self.body}{self.end}\n"
        rest = (self.cut(text) or "").rstrip() if text else ""
        return f"{rest}\n\n{block}" if rest else block

    def cut(self, text: str) -> str | None:
        head, found, tail = text.partition(f"{self.begin}\n")
        tail = tail.partition(f"{self.end}\n")[2]
        if not found:
            return text
        rest = f"{head.rstrip()}\n" if not tail.strip() else f"{head}{tail.lstrip()}"
        return rest if rest.strip() else None


class JsonEntry(FileEdit):
    """A value in a JSON object; with `mark`, an item of a list there, recognised by a text in it."""

    def __init__(self, path: str, keys: Sequence[str], value: Any, mark: str = "") -> None:
        super().__init__(path)
        self.keys = list(keys)
        self.value = value
        self.mark = mark

    def put(self, text: str | None) -> str:
        document = self._read(text)
        place = document
        for key in self.keys[:-1]:
            place = self._inside(place, key, {})
        if self.mark:
            items = [item for item in self._inside(place, self.keys[-1], []) if self.mark not in dumps(item)]
            place[self.keys[-1]] = [*items, self.value]
        else:
            place[self.keys[-1]] = self.value
        return dumps(document, 2) + "\n"

    def cut(self, text: str) -> str | None:
        document = self._read(text)
        self._cut(document, self.keys)
        return dumps(document, 2) + "\n" if document else None

    def _cut(self, place: Any, keys: list[str]) -> None:
        """Remove the entry, and on the way back whatever is empty without it."""
        if not isinstance(place, dict) or keys[0] not in place:
            return
        if len(keys) > 1:
            self._cut(place[keys[0]], keys[1:])
        elif self.mark and isinstance(place[keys[0]], list):
            place[keys[0]] = [item for item in place[keys[0]] if self.mark not in dumps(item)]
        else:
            place[keys[0]] = None
        if not place[keys[0]]:
            del place[keys[0]]

    def _read(self, text: str | None) -> dict[str, Any]:
        try:
            document = loads(text) if text and text.strip() else {}
        except ValueError as error:
            raise ConfigError(
                f"{self.path} cannot be changed: it is not plain JSON ({error})",
                hint=f"add this by hand, at {'.'.join(self.keys)}: {dumps(self.value)}",
            ) from None
        if not isinstance(document, dict):
            raise ConfigError(f"{self.path} is not a JSON object", hint="fix it by hand first")
        return document

    def _inside(self, place: dict[str, Any], key: str, empty: Any) -> Any:
        found = place.setdefault(key, empty)
        if not isinstance(found, type(empty)):
            raise ConfigError(f"{key!r} in {self.path} has the wrong type", hint="fix it by hand first")
        return found


def planned(edits: Sequence[FileEdit]) -> dict[str, tuple[str | None, str]]:
    """The old and the new content of each file. Nothing is written."""
    found: dict[str, tuple[str | None, str]] = {}
    for edit in edits:
        before, now = found.get(edit.path) or (read_text(edit.path),) * 2
        found[edit.path] = (before, edit.put(now))
    return found


class Manifest:
    """What was written for one program, so that it can be undone. One file for each program, in one directory."""

    def __init__(self, directory: str, name: str) -> None:
        self.directory = directory
        self.path = os.path.join(directory, f"{name}.json")
        self.files: dict[str, dict[str, Any]] = {}
        text = read_text(self.path)
        if text is not None:
            self.files = loads(text)["files"]

    def apply(self, plan: dict[str, tuple[str | None, str]]) -> None:
        make_dirs(self.directory)
        for path, (before, after) in plan.items():
            known = self.files.get(path)
            unchanged = known is not None and before is not None and known["sha256"] == _sum(before)
            first = known["before"] if known is not None and unchanged else before
            made = known["made"] if known is not None else _missing(os.path.dirname(path))
            self.files[path] = {"before": first, "sha256": _sum(after), "made": made}
        self._save()  # before anything is changed, so that it can always be undone
        for path, (before, after) in plan.items():
            if before != after:
                write_text(path, after)

    def remove(self, edits: Sequence[FileEdit]) -> list[str]:
        """Undo all of it and return the files. What another program also needs is left to that one."""
        changed = []
        for path, known in self.files.items():
            now = read_text(path)
            if now is None or self._hand_over(path, known, now):
                continue
            rest: str | None = known["before"]
            if _sum(now) != known["sha256"]:
                rest = now
                for edit in edits:
                    rest = edit.cut(rest) if rest is not None and edit.path == path else rest
            _restore(path, rest, known["made"])
            changed.append(path)
        if os.path.exists(self.path):
            os.unlink(self.path)
        return changed

    def _hand_over(self, path: str, known: dict[str, Any], now: str) -> bool:
        """Whether another program needs this file as it is. If so, its manifest takes over the original content."""
        needed = False
        for name in os.listdir(self.directory):
            other = Manifest(self.directory, name.removesuffix(".json"))
            if other.path == self.path or path not in other.files:
                continue
            needed = True
            if other.files[path]["before"] == now and known["sha256"] == _sum(now):
                other.files[path] |= {"before": known["before"], "made": known["made"]}
                other._save()
        return needed

    def _save(self) -> None:
        write_text(self.path, dumps({"version": 1, "files": self.files}, 2) + "\n")


def _missing(directory: str) -> list[str]:
    """The missing directories on the way, innermost first."""
    found = []
    while not os.path.isdir(directory):
        found.append(directory)
        directory = os.path.dirname(directory)
    return found


def _restore(path: str, text: str | None, made: list[str]) -> None:
    if text is not None:
        write_text(path, text)
        return
    os.unlink(path)
    for directory in made:
        try:
            os.rmdir(directory)
        except OSError:
            return  # something else is in it by now


def _sum(text: str) -> str:
    return sha256(text.encode(errors="surrogateescape")).hexdigest()


# Creates a planning directory, and tells MCP hosts where the ledger server is.

LEDGER_SERVER = "heimdall-ledger"


def init(planning: Planning) -> None:
    """Create what is missing, and publish the message schema; existing files stay as they are."""
    make_dirs(planning.path("protocol", "capsules"))
    for document in (Symbols(planning).document, Blackboard(planning).document, Ledger(planning).baselines):
        document.create()
    ledger = Ledger(planning).path
    make_dirs(os.path.dirname(ledger))
    os.close(open_append(ledger, 0o644))
    write_text(planning.path("protocol", "message-schema.json"), dumps(schema(), 2) + "\n")
    planning.log("protocol", "init", planning.path("protocol"))


def write_mcp_config(planning: Planning) -> str:
    """Register the server in `.mcp.json` at the top of the repository, keeping existing entries.

    Hosts start servers in directories of their own choosing, so both the program and the project are full paths.
    """
    found = repository.find(planning.project)
    top = found.top if found else planning.project
    path = os.path.join(top, ".mcp.json")
    text = read_text(path)
    try:
        document = loads(text) if text is not None else {}
        servers = document.setdefault("mcpServers", {})
        servers[LEDGER_SERVER] = {"command": command("heimdall-ledger-mcp"), "args": ["--project", top]}
        if os.environ.get("HEIMDALL_PLANNING_DIR"):  # the host may not have it set
            servers[LEDGER_SERVER]["env"] = {"HEIMDALL_PLANNING_DIR": planning.root}
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f"{path} is not a list of MCP servers", hint="fix it by hand first") from None
    write_text(path, dumps(document, 2) + "\n")
    planning.log("protocol", "init-mcp", path)
    return path


def command(name: str) -> str:
    """The full path of one of our commands, so that it works from any directory and with any PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    if os.path.exists(beside):
        return beside
    import shutil

    return shutil.which(name) or name


SERVER = "heimdall"
"""Without a dash, because some programs form tool names from it."""
HOOK_SECONDS = 10
CURSOR_TOOLS = "Shell|Write|StrReplace|Edit|MultiEdit|Delete"
MARK = "coord hook "
"""Part of every hook entry of ours, to recognise it."""
NAMES = ("claude", "codex", "gemini", "qwen", "copilot", "opencode", "cursor")

PARAGRAPH = """## Several agents work in this repository

Before you change files, claim them with the tool `make_claim` of the MCP server `heimdall` (in Claude Code, Codex and
Qwen Code `mcp__heimdall__make_claim`, in Gemini CLI `mcp_heimdall_make_claim`, in opencode `heimdall_make_claim`, in
Copilot `heimdall-make_claim`; if you do not see it, search your tools for it), or in a shell:
`heimdall-claim claim 'src/pay/**' --task 'what for'`. If it is refused, another agent is at work there: do something
else, and ask again later. `release_claim` what you are done with. Edits and commits of what others hold are refused.
"""


class HostSetup:
    """What is written for one program, and what the person has to know."""

    def __init__(self, edits: list[FileEdit], notes: list[str]) -> None:
        self.edits = edits
        self.notes = notes


def host(name: str, top: str, main: str, *, trust: bool = False) -> HostSetup:
    """The setup for the worktree `top` of the repository whose main worktree is `main`.

    `trust`: also have Codex trust the hook; otherwise it asks the person.
    """
    if name not in NAMES:
        raise ConfigError(f"there is no setup for {name!r}", hint=f"one of {', '.join(NAMES)}")
    if name == "codex":
        return _codex(top, main, trust)
    setups = {"claude": _claude, "gemini": _gemini, "qwen": _qwen, "copilot": _copilot}
    return (setups | {"opencode": _opencode, "cursor": _cursor})[name](top)


def program(name: str) -> str:
    """Our command by its bare name if PATH has it, so that no path of this machine goes into shared files."""
    import shutil

    return name if shutil.which(name) else command(name)


def hook_command(name: str) -> str:
    """A command line that runs our hook, and allows the call where Treadle is not installed."""
    treadle = shlex.quote(program("treadle"))
    goes_on = "{ echo '{}'; exit 0; }" if name == "cursor" else "exit 0"
    return f"sh -c {shlex.quote(f'command -v {treadle} >/dev/null || {goes_on}; exec {treadle} {MARK}{name}')}"


def _server() -> dict[str, Any]:
    # Every request of the agent carries the tools' descriptions: the six of 1.0.0 are half of all.
    return {"command": program("heimdall-ledger-mcp"), "args": [], **({"env": env} if (env := _env()) else {})}


def _env() -> dict[str, str]:
    """A state directory of the person's own: Codex passes no such variable on to servers."""
    return {"TREADLE_HOME": home} if (home := os.environ.get("TREADLE_HOME")) else {}


def _paragraph(path: str) -> Block:
    return Block(path, "<!-- treadle coord: begin -->", "<!-- treadle coord: end -->", PARAGRAPH)


def _hooked(path: str, events: Sequence[str], entry: Any) -> list[FileEdit]:
    """The same hook before a call and after it."""
    return [JsonEntry(path, ["hooks", event], entry, MARK) for event in events]


AROUND = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_GEMINI_READS = "read_file|read_many_files|glob|grep_search|search_file_content|list_directory|web_fetch"


def _all_but(readers: str) -> str:
    """A matcher for every tool but those known to change no file: a tool that a later version adds is asked about."""
    return f"^(?!({readers})$)"


def _claude(top: str) -> HostSetup:
    reads = "CLAUDE.md" if os.path.exists(os.path.join(top, "CLAUDE.md")) else "AGENTS.md"
    hook = {"type": "command", "command": hook_command("claude"), "timeout": HOOK_SECONDS}
    entry = {"matcher": _all_but("Read|Glob|Grep|LS|WebFetch|WebSearch|ToolSearch|TodoWrite"), "hooks": [hook]}
    return HostSetup(
        [
            # Claude Code then waits for the server, and the first request has its tools instead of none or their names.
            JsonEntry(os.path.join(top, ".mcp.json"), ["mcpServers", SERVER], {**_server(), "alwaysLoad": True}),
            *_hooked(os.path.join(top, ".claude", "settings.json"), AROUND, entry),
            _paragraph(os.path.join(top, reads)),
        ],
        ["Claude Code asks once whether you trust this directory, and whether to use the server of .mcp.json."],
    )


def _codex(top: str, main: str, trust: bool = False) -> HostSetup:
    hooks = os.path.join(main, ".codex", "hooks.json")  # Codex looks there, whichever worktree it runs in
    entry = {"hooks": [{"type": "command", "command": hook_command("codex"), "timeout": HOOK_SECONDS}]}
    override = os.path.join(top, "AGENTS.override.md")
    served = f"[mcp_servers.{SERVER}]\ncommand = {dumps(program('heimdall-ledger-mcp'))}\n"
    served += "".join(f"env = {{ {name} = {dumps(value)} }}\n" for name, value in _env().items())
    edits: list[FileEdit] = [
        _toml(os.path.join(top, ".codex", "config.toml"), served),
        *_hooked(hooks, AROUND[:2], entry),
        _paragraph(override if os.path.exists(override) else os.path.join(top, "AGENTS.md")),
    ]
    notes = ["Codex reads .codex only in a directory that you have trusted (it asks at its first start there)."]
    if trust:
        edits.append(_codex_trust(hooks, entry))
        notes.append("The hook is marked as trusted in your Codex settings, as --trust says.")
    else:
        notes.append("Codex runs the hook once you have looked at it and trusted it: /hooks in Codex, or --trust here.")
    return HostSetup(edits, notes)


def _toml(path: str, body: str) -> Block:
    return Block(path, "# treadle coord: begin", "# treadle coord: end", body)


def _codex_trust(hooks: str, entry: dict[str, Any]) -> Block:
    """What Codex itself writes when a person trusts a hook: the place of the hook, and a hash of what it runs."""
    home = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
    (hook,) = entry["hooks"]
    body = ""
    for event, name in zip(AROUND, ("pre_tool_use", "post_tool_use"), strict=False):
        seen = {"event_name": name, "hooks": [{**hook, "async": False}]}
        total = sha256(dumps(seen, sort_keys=True).encode()).hexdigest()
        before = _place(JsonEntry(hooks, ["hooks", event], entry, MARK))
        key = dumps(f"{os.path.realpath(hooks)}:{name}:{before}:0")
        body += f'[hooks.state.{key}]\ntrusted_hash = "sha256:{total}"\n'
    return _toml(os.path.join(home, "config.toml"), body)


def _place(entry: JsonEntry) -> int:
    """The position that the entry will have in its list."""
    return len(loads(entry.put(read_text(entry.path)))["hooks"][entry.keys[-1]]) - 1


def _gemini(top: str) -> HostSetup:
    settings = os.path.join(top, ".gemini", "settings.json")
    hook = {"name": "treadle", "type": "command", "command": hook_command("gemini"), "timeout": HOOK_SECONDS * 1000}
    entry = {"matcher": _all_but(_GEMINI_READS), "hooks": [hook]}
    return HostSetup(
        [
            JsonEntry(settings, ["mcpServers", SERVER], _server()),
            *_hooked(settings, ("BeforeTool", "AfterTool"), entry),
            _paragraph(os.path.join(top, "GEMINI.md")),
        ],
        [
            "Gemini CLI reads .gemini only in a directory that you have trusted.",
            "It runs no hooks in --acp, and its shell switches git's hooks off; our hook checks its commits instead.",
        ],
    )


def _qwen(top: str) -> HostSetup:
    settings = os.path.join(top, ".qwen", "settings.json")
    hook = {"type": "command", "command": hook_command("qwen"), "timeout": HOOK_SECONDS}
    entry = {"matcher": _all_but(_GEMINI_READS), "hooks": [hook]}
    return HostSetup(
        [
            JsonEntry(settings, ["mcpServers", SERVER], _server()),
            *_hooked(settings, AROUND, entry),
            _paragraph(os.path.join(top, "AGENTS.md")),
        ],
        ["In --acp, Qwen Code starts no server of a project: there it is bound by claims and cannot make any."],
    )


def _copilot(top: str) -> HostSetup:
    hook = {"type": "command", "command": hook_command("copilot"), "timeout": HOOK_SECONDS}
    hooks = {"version": 1, "hooks": {event: [hook] for event in AROUND}}
    return HostSetup(
        [
            JsonEntry(os.path.join(top, ".mcp.json"), ["mcpServers", SERVER], _server()),
            OwnFile(os.path.join(top, ".github", "hooks", "treadle.json"), dumps(hooks, 2) + "\n"),
            _paragraph(os.path.join(top, "AGENTS.md")),
        ],
        ["Copilot reads both only in a directory that you have trusted; with -p, give --trust-folder as well."],
    )


def _opencode(top: str) -> HostSetup:
    served = {"type": "local", "command": [program("heimdall-ledger-mcp")], "enabled": True}
    served |= {"environment": env} if (env := _env()) else {}
    return HostSetup(
        [
            JsonEntry(os.path.join(top, "opencode.json"), ["mcp", SERVER], served),
            OwnFile(os.path.join(top, ".opencode", "plugin", "treadle.js"), PLUGIN % dumps(program("treadle"))),
            _paragraph(os.path.join(top, "AGENTS.md")),
        ],
        [],
    )


def _cursor(top: str) -> HostSetup:
    hook = {"command": hook_command("cursor"), "matcher": CURSOR_TOOLS, "timeout": HOOK_SECONDS}
    hooks = os.path.join(top, ".cursor", "hooks.json")
    return HostSetup(
        [
            JsonEntry(os.path.join(top, ".cursor", "mcp.json"), ["mcpServers", SERVER], _server()),
            JsonEntry(hooks, ["version"], 1),
            *_hooked(hooks, ("preToolUse", "postToolUse"), hook),
            _paragraph(os.path.join(top, "AGENTS.md")),
        ],
        ["Written as Cursor's documents say; it was not run with Cursor itself."],
    )


PLUGIN = """// Asks before and after a call what claims allow. `treadle coord setup opencode` writes and removes it.
import { spawnSync } from "node:child_process";

const TREADLE = %s;

const ask = (event, call, directory, args) => {
  const said = { hook_event_name: event, session_id: call.sessionID, cwd: directory };
  Object.assign(said, { tool_name: call.tool, tool_input: args });
  const done = spawnSync(TREADLE, ["coord", "hook", "opencode"], {
    input: JSON.stringify(said), encoding: "utf8", timeout: 10000,
  });
  return done.stdout ? JSON.parse(done.stdout) : {};
};

export const Treadle = async ({ directory }) => ({
  "tool.execute.before": async (call, output) => {
    const answer = ask("PreToolUse", call, directory, output.args);
    if (answer.decision === "block") throw new Error(answer.reason);
  },
  "tool.execute.after": async (call, output) => {
    const answer = ask("PostToolUse", call, directory, call.args);
    if (answer.systemMessage) output.output = `${output.output ?? ""}\n${answer.systemMessage}`;
  },
  "shell.env": async (call, output) => {
    if (call.sessionID) output.env.TREADLE_SESSION = `opencode:${call.sessionID}`;
  },
});
"""
