"""Scenarios made from the SDKs' own types: every control request, hook event, message, flag and setting that they name.

No person chose them, so they find what none thought of. Facts are named after what the types name; a new version of the
SDK adds its own.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.differential import inventory
from tests.differential.driving import DONE, calling
from tests.differential.scenarios import BASH, SCENARIOS, Facts
from tests.differential.wire import Spoken, spoken

# Control requests

GIVEN: dict[str, Any] = {
    "settings": {},
    "tool_use_id": "x",
    "message_uuid": "11111111-1111-4111-8111-111111111110",
    "query": "a",
    "task_id": "nope",
    "tool": "x",
    "server_name": "x",
    "serverName": "x",
    "uri": "x:y",
    "message": {},
    "servers": {},
    "enabled": True,
    "path": "a.txt",
    "directory": "/nowhere",
    "title": "the heron",
    "user_message_id": "nope",
    "mtime": 1,
    "color": "red",
    "has_subscribers": True,
    "model": "claude-sonnet-4-5",
    "mode": "plan",
    "max_thinking_tokens": 1000,
    "source": "host",
}
OURS = ("initialize", "interrupt", "can_use_tool", "elicitation", "request_user_dialog", "mcp_message")
"""Asked first or last; or asked by the program of its host, and by no host."""


async def control_requests(program: str, home: Path) -> Facts:
    facts: Facts = {}
    files = {"a.txt": "hello\n"}
    async with spoken(program, home, DONE, files=files) as seen:
        answers = {"initialize": await seen.request("initialize")}
        await seen.prompt("one")
        for name, fields in inventory.control_requests().items():
            if name not in OURS:
                given = {field: GIVEN[field] for field in fields if field in GIVEN}
                answers[name] = await seen.request(name, **given)
        answers["interrupt"] = await seen.request("interrupt")
    for name, answer in answers.items():
        facts[f"{name}: answer"] = answer["subtype"]
        response = answer.get("response")
        facts[f"{name}: fields"] = sorted(response) if isinstance(response, dict) else None
    refused = [f"{name}: {answer['error']}" for name, answer in answers.items() if answer.get("error")]
    return {**facts, "_said": [*seen.said, *refused]}


SCENARIOS["types: control requests"] = control_requests

# Hooks and messages: one long conversation in which as many of them as possible come

AGENTS = json.dumps({"helper": {"description": "helps", "prompt": "You help."}})
TOUR = (
    calling("Read", file_path="{work}/a.txt").replace("[[reply]]", '[[reply]]\nwhen = "^look"')
    + calling("Write", file_path="{work}/new.txt", content="x\n")
    + calling("Bash", command="cat nowhere", **BASH)
    + calling("Bash", command="sleep 0.1; echo hi", run_in_background=True, **BASH)
    + calling("Agent", subagent_type="helper", prompt="help with it", description="look", run_in_background=False)
    + DONE
)
FLAGS = (
    *("--include-partial-messages", "--include-hook-events", "--replay-user-messages"),
    *("--permission-prompt-tool", "stdio", "--agents", AGENTS, "--setting-sources", "user,project"),
)
PLACED = {"a.txt": "hello\n", "CLAUDE.md": "Be a heron.", ".claude/commands/hey.md": "Say hey"}
REPLACING = ("WorktreeCreate",)
"""A hook of this event does in place of the program what the event is about."""


def _prompt_id(number: int) -> dict[str, str]:
    return {"uuid": f"11111111-1111-4111-8111-11111111111{number}"}


async def _tour(program: str, home: Path) -> Spoken:
    async with spoken(program, home, TOUR, *FLAGS, files=PLACED) as seen:
        hooks = {event: [{"hookCallbackIds": [event]}] for event in inventory.hook_events() if event not in REPLACING}
        answer = await seen.request("initialize", hooks=hooks)
        seen.facts["initialize"] = answer["subtype"]
        await seen.prompt("look at it", **_prompt_id(1))
        await seen.prompt("/hey", **_prompt_id(2))
        await seen.request("set_model", model="claude-sonnet-4-5")
        await seen.prompt("/compact", **_prompt_id(3))
        await seen.prompt("and now", **_prompt_id(4))
    return seen


BASE = ("session_id", "transcript_path", "cwd", "permission_mode", "prompt_id", "effort")


async def hook_events(program: str, home: Path) -> Facts:
    """Whether each event comes, and each field of its input."""
    seen = await _tour(program, home)
    facts: Facts = {"initialize": seen.facts["initialize"]}
    for event, fields in inventory.hook_inputs().items():
        told = [one for one in seen.hooked if one["hook_event_name"] == event]
        facts[f"{event} comes"] = bool(told)
        for field in (*BASE, *fields):
            facts[f"{event}.{field}"] = any(field in one for one in told)
        if event == "PostToolUse":
            shapes = {one["tool_name"]: one["tool_response"] for one in told}
            facts["PostToolUse.tool_response of Write"] = _keys(shapes.get("Write"))
    return {**facts, "_said": [*seen.said]}


async def messages(program: str, home: Path) -> Facts:
    """Whether each message comes, and each field of it."""
    seen = await _tour(program, home)
    facts: Facts = {}
    for kind, fields in inventory.messages().items():
        came = seen.wrote(kind)
        facts[f"{kind} comes"] = bool(came)
        for field in fields:
            facts[f"{kind}.{field}"] = any(field in one for one in came)
    return {**facts, "_said": [*seen.said]}


def _keys(value: Any) -> Any:
    return sorted(value) if isinstance(value, dict) else type(value).__name__


SCENARIOS["types: hook events"] = hook_events
SCENARIOS["types: messages"] = messages

# Hooks of settings: each field of a hook's entry

REFUSES = "echo not so >&2; exit 2"
ENTRIES: dict[str, dict[str, Any]] = {
    "command": {"type": "command", "command": REFUSES},
    "args": {"type": "command", "command": "/bin/sh", "args": ["-c", REFUSES]},
    "if that fits": {"type": "command", "command": REFUSES, "if": "Bash(touch *)"},
    "if that does not fit": {"type": "command", "command": REFUSES, "if": "Bash(rm *)"},
    "once": {"type": "command", "command": REFUSES, "once": True},
    "async": {"type": "command", "command": REFUSES, "async": True},
    "onFailure block": {"type": "command", "command": "exit 1", "onFailure": "block"},
    "onFailure": {"type": "command", "command": "exit 1"},
    "timeout": {"type": "command", "command": REFUSES, "timeout": 20},
    "prompt, which says yes": {"type": "prompt", "prompt": "is it fine? $ARGUMENTS"},
    "prompt, which says no": {"type": "prompt", "prompt": "is it wrong? $ARGUMENTS", "continueOnBlock": True},
    "http": {"type": "http", "url": "http://127.0.0.1:9/"},
    "http, which refuses": {
        "type": "http",
        "url": "{served}/refuse",
        "headers": {"X-Key": "k $WANTED ${WANTED} $OTHER"},
        "allowedEnvVars": ["WANTED"],
    },
    "http, which fails": {"type": "http", "url": "{served}/fail"},
    "http, which fails and blocks": {"type": "http", "url": "{served}/fail", "onFailure": "block"},
    "http, which says nothing": {"type": "http", "url": "{served}/nothing"},
}


class HookService(BaseHTTPRequestHandler):
    """Answers as its path says, and keeps what it was sent."""

    sent: list[tuple[str, dict[str, Any]]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.sent.append((self.headers.get("X-Key", ""), body))
        answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}
        answer["hookSpecificOutput"]["permissionDecisionReason"] = "not so"
        data = json.dumps(answer).encode() if self.path == "/refuse" else b""
        self.send_response(500 if self.path == "/fail" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def serving_hooks() -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    sent: list[tuple[str, dict[str, Any]]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (HookService,), {"sent": sent})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", sent
        server.shutdown()


JUDGED = (
    '[[reply]]\nwhen = "^is it fine"\ntimes = "always"\ntext = \'{"ok": true, "reason": "fine"}\'\n'
    '[[reply]]\nwhen = "^is it wrong"\ntimes = "always"\ntext = \'{"ok": false, "reason": "not so"}\'\n'
)


def _entry(entry: dict[str, Any]) -> Callable[[str, Path], Any]:
    async def run(program: str, home: Path) -> Facts:
        settings = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [entry]}]}})
        script = JUDGED + calling("Bash", command="touch made", **BASH) + DONE
        env = {"WANTED": "a-word", "OTHER": "another"}
        with serving_hooks() as (url, sent):
            flags = ("--allowedTools", "Bash", "--settings", settings.replace("{served}", url))
            async with spoken(program, home, script, *flags, env=env) as seen:
                await seen.request("initialize")
                await seen.prompt("go")
        result = seen.last_result
        return {
            "made": (seen.work / "made").exists(),
            "subtype": result.get("subtype"),
            "the model reads why": seen.reached("not so"),
            "sent": [[key, body.get("hook_event_name"), body.get("tool_name")] for key, body in sent],
            "_said": [*seen.said, json.dumps(result)],
        }

    return run


SCENARIOS |= {f"hook entry: {name}": _entry(entry) for name, entry in ENTRIES.items()}

# Settings: what each does is compared where a run can show it

SETTINGS: dict[str, tuple[Any, str]] = {
    "env": ({"COLOUR": "dark red"}, "dark red"),
    "permissions.deny": (["Bash(echo:*)"], "denied"),
    "permissions.ask": (["Bash(echo:*)"], "denied"),
    "disableAllHooks": (True, ""),
    "model": ("claude-sonnet-4-5", ""),
    "agent": ("helper", "You help."),
    "language": ("Esperanto", "Esperanto"),
    "effortLevel": ("low", ""),
    "alwaysThinkingEnabled": (False, ""),
    "outputStyle": ("Concise", ""),
    "includeGitInstructions": (False, ""),
    "bashOutputMaxChars": (30000, ""),
    "autoCompactEnabled": (False, ""),
    "cleanupPeriodDays": (3, ""),
}


def _setting(name: str, value: Any) -> Callable[[str, Path], Any]:
    async def run(program: str, home: Path) -> Facts:
        given: Any = value
        for part in reversed(name.split(".")):
            given = {part: given}
        flags = ("--agents", AGENTS, "--settings", json.dumps(given))
        async with spoken(program, home, calling("Bash", command="echo $COLOUR", **BASH) + DONE, *flags) as seen:
            await seen.request("initialize")
            await seen.prompt("go")
        result = seen.last_result
        text = SETTINGS[name][1]
        return {
            "subtype": result.get("subtype"),
            "model": seen.told[0]["model"] if seen.told else None,
            "reached": seen.reached(text) if text else None,
            "refused": [one["tool_name"] for one in result.get("permission_denials", ())],
            "_said": [*seen.said, json.dumps(result)],
        }

    return run


SCENARIOS |= {f"setting {name}": _setting(name, value) for name, (value, _) in SETTINGS.items()}

# A PDF that is read

PDF = (
    "%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\n"
    "endobj\n3 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 72 72] >>\nendobj\n"
    "trailer\n<< /Root 1 0 R >>\n%%EOF\n"
)


async def read_pdf(program: str, home: Path) -> Facts:
    script = calling("Read", file_path="{work}/a.pdf") + DONE
    async with spoken(program, home, script, files={"a.pdf": PDF}) as seen:
        await seen.request("initialize")
        await seen.prompt("go")
    return {
        "subtype": seen.last_result.get("subtype"),
        "a document reached the model": seen.reached('"application/pdf"'),
        "_said": [*seen.said, json.dumps(seen.last_result)],
    }


SCENARIOS["Read of a PDF"] = read_pdf

# An agent's definition for the conversation itself

SCOUT = {"description": "scouts", "prompt": "You are a heron scout.", "tools": ["Read"], "model": "haiku"}
SCOUTS = json.dumps({"scout": SCOUT})
SCOUT_FILE = "---\nname: scout\ndescription: scouts\ntools: Read\nmodel: haiku\n---\nYou are a heron scout.\n"
MAIN_AGENTS: dict[str, tuple[str, ...]] = {
    "by flag": ("--agent", "scout", "--agents", SCOUTS),
    "by setting": ("--settings", '{"agent": "scout"}', "--agents", SCOUTS),
    "by flag, from a file": ("--agent", "scout"),
    "by setting, from a file": ("--settings", '{"agent": "scout"}'),
    "with another model": ("--agent", "scout", "--agents", SCOUTS, "--model", "claude-sonnet-4-5"),
    "with another prompt": ("--agent", "scout", "--agents", SCOUTS, "--system-prompt", "You are a parrot."),
    "with an addition": ("--agent", "scout", "--agents", SCOUTS, "--append-system-prompt", "You are a parrot."),
    "with tools": ("--agent", "scout", "--agents", SCOUTS, "--tools", "Read,Bash"),
    "unknown by flag": ("--agent", "nobody"),
    "unknown by setting": ("--settings", '{"agent": "nobody"}'),
}


def _main_agent(flags: tuple[str, ...]) -> Callable[[str, Path], Any]:
    async def run(program: str, home: Path) -> Facts:
        files = {".claude/agents/scout.md": SCOUT_FILE} if SCOUTS not in flags else {}
        async with spoken(program, home, DONE, *flags, files=files) as seen:
            await seen.request("initialize")
            await seen.prompt("go")
        asked = seen.told[-1] if seen.told else {}
        offered = {str(tool.get("name", "")).lower() for tool in asked.get("tools", ())}
        return {
            "subtype": seen.last_result.get("subtype"),
            "family": next((name for name in ("haiku", "sonnet") if name in str(asked.get("model"))), None),
            "prompt reached": "heron scout" in json.dumps(asked.get("system")),
            "other prompt reached": "parrot" in json.dumps(asked.get("system")),
            "can run commands": "bash" in offered,
            "can write": bool({"write", "write_file"} & offered),
            "_said": [*seen.said, json.dumps(seen.last_result)],
        }

    return run


SCENARIOS |= {f"main agent {name}": _main_agent(flags) for name, flags in MAIN_AGENTS.items()}

# Flags: each that can be given to one prompt

WITH: dict[str, tuple[str, ...]] = {
    "--add-dir": ("{home}",),
    "--agent": ("helper", "--agents", AGENTS),
    "--agents": (AGENTS,),
    "--allow-dangerously-skip-permissions": (),
    "--allowedTools": ("Bash(echo:*)",),
    "--append-system-prompt": ("Speak like a heron.",),
    "--autocompact": ("auto",),
    "--bare": (),
    "--betas": ("x",),
    "--continue": (),
    "--debug": (),
    "--debug-file": ("{home}/log",),
    "--disable-slash-commands": (),
    "--disallowedTools": ("Bash",),
    "--effort": ("low",),
    "--exclude-dynamic-system-prompt-sections": (),
    "--fallback-model": ("claude-sonnet-4-5",),
    "--forward-subagent-text": (),
    "--include-hook-events": (),
    "--include-partial-messages": (),
    "--json-schema": ('{"type": "object"}',),
    "--max-budget-usd": ("5",),
    "--mcp-config": ('{"mcpServers": {}}',),
    "--model": ("claude-sonnet-4-5",),
    "--name": ("heron",),
    "--no-session-persistence": (),
    "--permission-mode": ("acceptEdits",),
    "--permission-prompts": ("none",),
    "--plugin-dir": ("{work}",),
    "--prompt-suggestions": ("false",),
    "--replay-user-messages": (),
    "--restricted": (),
    "--resume": ("11111111-1111-4111-8111-111111111119",),
    "--safe-mode": (),
    "--session-id": ("11111111-1111-4111-8111-111111111119",),
    "--setting-sources": ("project",),
    "--settings": ("{}",),
    "--strict-mcp-config": (),
    "--system-prompt": ("You are a parrot.",),
    "--system-prompt-snapshot": ("off",),
    "--tools": ("Read",),
    "--verbose": (),
    "--nonsense": (),
}
ELSEWHERE = (
    *("--help", "--version", "--print", "--input-format", "--output-format", "--dangerously-skip-permissions"),
    *("--ax-screen-reader", "--bg", "--brief", "--chrome", "--no-chrome", "--cloud", "--desktop", "--environment"),
    *("--file", "--from-pr", "--fork-session", "--ide", "--plugin-url", "--remote-control", "--teleport", "--tmux"),
    *("--remote-control-session-name-prefix", "--worktree"),
)
"""Of a terminal, of an account of claude.ai, of the network, or part of what every scenario gives."""


def _flag(flag: str, values: tuple[str, ...]) -> Callable[[str, Path], Any]:
    async def run(program: str, home: Path) -> Facts:
        stream = ("-p", "--output-format", "stream-json", "--verbose")
        if flag == "--replay-user-messages":
            stream = (*stream, "--input-format", "stream-json")
        script = calling("Bash", command="echo hi", **BASH) + DONE
        async with spoken(program, home, script, flag, *values, stream=stream) as seen:
            assert seen.process.stdin is not None
            if "stream-json" in stream[3:]:
                await seen.send({"type": "user", "message": {"role": "user", "content": "go"}})
            else:
                seen.process.stdin.write(b"go")
        result = seen.last_result
        first = json.dumps(seen.told[0]) if seen.told else ""
        return {
            "exit code": bool(seen.process.returncode),
            "subtype": result.get("subtype"),
            "result": result.get("result"),
            "model": seen.told[0]["model"] if seen.told else None,
            "refused": [one["tool_name"] for one in result.get("permission_denials", ())],
            "session": result.get("session_id") == values[0] if flag == "--session-id" else None,
            "reached": values[0] in first if flag in ("--append-system-prompt", "--system-prompt") else None,
            "_said": [*seen.said, json.dumps(result)],
        }

    return run


SCENARIOS |= {f"flag {flag}": _flag(flag, values) for flag, values in WITH.items()}

# What is not compared is a fact as well


def uncompared() -> dict[str, list[str]]:
    """By kind, what the types name and no scenario has; empty lists are the goal."""
    every = " ".join(SCENARIOS)

    def missing(names: Iterable[str], prefix: str) -> list[str]:
        return [name for name in names if f"{prefix}{name}" not in every and name not in ELSEWHERE]

    return {
        "options": [name for name in missing(inventory.python_options(), "option ") if name not in HOSTS],
        "hook events": missing(inventory.python_hook_events(), "hook "),
        "flags": [name for name in missing(inventory.flags(), "flag ")],
    }


HOSTS = (
    *("cwd", "cli_path", "max_buffer_size", "debug_stderr", "stderr", "client_app", "load_timeout_ms"),
    *("hooks", "can_use_tool", "setting_sources", "include_partial_messages", "verbatim_prompts", "settings"),
    *("continue_conversation", "resume", "fork_session", "mcp_servers"),
)
"""Options that the SDK itself uses, that every scenario gives, or that scenarios of another name compare."""
