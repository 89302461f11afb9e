"""What each outside agent needs in order to use claims and be bound by them: an MCP entry, a hook, a text to read."""

import os
import shlex
from hashlib import sha256

from treadle.coordination.edits import Block, FileEdit, JsonEntry, OwnFile
from treadle.coordination.setup import command
from treadle.errors import ConfigError
from treadle.light import Any
from treadle.wire.common.jsontext import dumps

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
    return {"command": program("heimdall-ledger-mcp"), "args": ["--extended"]}


def _paragraph(path: str) -> Block:
    return Block(path, "<!-- treadle coord: begin -->", "<!-- treadle coord: end -->", PARAGRAPH)


def _claude(top: str) -> HostSetup:
    reads = "CLAUDE.md" if os.path.exists(os.path.join(top, "CLAUDE.md")) else "AGENTS.md"
    hook = {"type": "command", "command": hook_command("claude"), "timeout": HOOK_SECONDS}
    entry = {"matcher": "Write|Edit|MultiEdit|NotebookEdit|Bash|mcp__.*", "hooks": [hook]}
    return HostSetup(
        [
            JsonEntry(os.path.join(top, ".mcp.json"), ["mcpServers", SERVER], _server()),
            JsonEntry(os.path.join(top, ".claude", "settings.json"), ["hooks", "PreToolUse"], entry, MARK),
            _paragraph(os.path.join(top, reads)),
        ],
        ["Claude Code asks once whether you trust this directory, and whether to use the server of .mcp.json."],
    )


def _codex(top: str, main: str, trust: bool = False) -> HostSetup:
    hooks = os.path.join(main, ".codex", "hooks.json")  # Codex looks there, whichever worktree it runs in
    entry = {"hooks": [{"type": "command", "command": hook_command("codex"), "timeout": HOOK_SECONDS}]}
    override = os.path.join(top, "AGENTS.override.md")
    served = f'[mcp_servers.{SERVER}]\ncommand = {dumps(program("heimdall-ledger-mcp"))}\nargs = ["--extended"]\n'
    edits: list[FileEdit] = [
        _toml(os.path.join(top, ".codex", "config.toml"), served),
        JsonEntry(hooks, ["hooks", "PreToolUse"], entry, MARK),
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
    seen = {"event_name": "pre_tool_use", "hooks": [{**hook, "async": False}]}
    total = sha256(dumps(seen, sort_keys=True).encode()).hexdigest()
    place = JsonEntry(hooks, ["hooks", "PreToolUse"], entry, MARK)
    before = _items(place)
    key = dumps(f"{os.path.realpath(hooks)}:pre_tool_use:{before}:0")
    return _toml(os.path.join(home, "config.toml"), f'[hooks.state.{key}]\ntrusted_hash = "sha256:{total}"\n')


def _items(entry: JsonEntry) -> int:
    """The position that the entry will have in its list."""
    from treadle.coordination.planning import read_text
    from treadle.wire.common.jsontext import loads

    return len(loads(entry.put(read_text(entry.path)))["hooks"]["PreToolUse"]) - 1


def _gemini(top: str) -> HostSetup:
    settings = os.path.join(top, ".gemini", "settings.json")
    hook = {"name": "treadle", "type": "command", "command": hook_command("gemini"), "timeout": HOOK_SECONDS * 1000}
    entry = {"matcher": "write_file|replace|run_shell_command|mcp_.*", "hooks": [hook]}
    return HostSetup(
        [
            JsonEntry(settings, ["mcpServers", SERVER], _server()),
            JsonEntry(settings, ["hooks", "BeforeTool"], entry, MARK),
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
    entry = {"matcher": "write_file|edit|notebook_edit|run_shell_command|mcp__.*", "hooks": [hook]}
    return HostSetup(
        [
            JsonEntry(settings, ["mcpServers", SERVER], _server()),
            JsonEntry(settings, ["hooks", "PreToolUse"], entry, MARK),
            _paragraph(os.path.join(top, "AGENTS.md")),
        ],
        ["In --acp, Qwen Code starts no server of a project: there it is bound by claims and cannot make any."],
    )


def _copilot(top: str) -> HostSetup:
    hook = {"type": "command", "command": hook_command("copilot"), "timeout": HOOK_SECONDS}
    hooks = {"version": 1, "hooks": {"PreToolUse": [hook]}}
    return HostSetup(
        [
            JsonEntry(os.path.join(top, ".mcp.json"), ["mcpServers", SERVER], _server()),
            OwnFile(os.path.join(top, ".github", "hooks", "treadle.json"), dumps(hooks, 2) + "\n"),
            _paragraph(os.path.join(top, "AGENTS.md")),
        ],
        ["Copilot reads both only in a directory that you have trusted; with -p, give --trust-folder as well."],
    )


def _opencode(top: str) -> HostSetup:
    served = {"type": "local", "command": [program("heimdall-ledger-mcp"), "--extended"], "enabled": True}
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
            JsonEntry(hooks, ["hooks", "preToolUse"], hook, MARK),
            _paragraph(os.path.join(top, "AGENTS.md")),
        ],
        ["Written as Cursor's documents say; it was not run with Cursor itself."],
    )


PLUGIN = """// Asks before a tool call whether claims allow it. `treadle coord setup opencode` writes and removes it.
import { spawnSync } from "node:child_process";

const TREADLE = %s;

export const Treadle = async ({ directory }) => ({
  "tool.execute.before": async (call, output) => {
    const said = { session_id: call.sessionID, cwd: directory, tool_name: call.tool, tool_input: output.args };
    const done = spawnSync(TREADLE, ["coord", "hook", "opencode"], {
      input: JSON.stringify(said), encoding: "utf8", timeout: 10000,
    });
    if (!done.stdout) return;
    const answer = JSON.parse(done.stdout);
    if (answer.decision === "block") throw new Error(answer.reason);
  },
  "shell.env": async (call, output) => {
    if (call.sessionID) output.env.TREADLE_SESSION = `opencode:${call.sessionID}`;
  },
});
"""
