"""What people have for Claude Code, in the shapes that public repositories have: one row for each file or setting.

A row is seen by its effect: which of its words reached the model, which files were made, and what subagents were
offered. `theirs` is what Claude Code does: `python -m tests.differential.compare files:` looks again, and tells of a
row that is noted wrongly. Ours does the same, or says so in a line that has the words of `said`.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from tests.differential.driving import DONE, Seen, calling, drive
from tests.differential.scenarios import SCENARIOS, Facts, bash
from tests.drivers.notes_server import __file__ as NOTES

TOUCH = bash("touch made")
USER, LOCAL = "claude/settings.json", ".claude/settings.json"
NO = "echo word-no >&2; exit 2"


class Row(NamedTuple):
    name: str
    files: dict[str, str]
    theirs: str
    """Words, with spaces between."""
    script: str = DONE
    prompts: tuple[str, ...] = ("go",)
    said: str = ""
    given: dict[str, Any] = {}


def settings(place: str = USER, **table: Any) -> dict[str, str]:
    return {place: json.dumps(table)}


def rules(place: str = USER, **table: Any) -> dict[str, str]:
    return settings(place, permissions=table)


def hook(event: str, command: str, matcher: str | None = None, **more: Any) -> dict[str, str]:
    entry = {"hooks": [{"type": "command", "command": command, **more.pop("hook", {})}]}
    entry |= {"matcher": matcher} if matcher is not None else {}
    return settings(hooks={event: [entry]}, permissions={"allow": more.pop("allow", ["Bash"])}, **more)


def says(event: str, **specific: Any) -> str:
    return f"echo '{json.dumps({'hookSpecificOutput': {'hookEventName': event, **specific}})}'"


def written(header: str, body: str) -> str:
    return f"---\n{header}\n---\n{body}\n"


def command(header: str, body: str, name: str = "look") -> dict[str, str]:
    return {f"claude/commands/{name}.md": written(header, body)}


def skill(header: str, body: str = "word-skill", name: str = "greet") -> dict[str, str]:
    return {f"claude/skills/{name}/SKILL.md": written(header, body)}


def agent(header: str) -> dict[str, str]:
    return {"claude/agents/scout.md": written(f"name: scout\ndescription: looks\n{header}".strip(), "word-agent")}


def plugin(files: dict[str, str], **manifest: Any) -> dict[str, str]:
    table = {"../plug/.claude-plugin/plugin.json": json.dumps({"name": "plug", **manifest})}
    return table | {f"../plug/{name}": text for name, text in files.items()}


def writes(path: str) -> str:
    return calling("Write", file_path=path, content="x") + DONE


def reads(path: str) -> str:
    return calling("Read", file_path=path) + DONE


SECRET = {".env": "word-secret", "../secret/a": "word-secret", "src/key.pem": "word-secret"}
SCOUT = calling("Task", prompt="look", description="d", subagent_type="scout") + DONE * 2
USE = calling("Skill", skill="greet") + DONE
PLUG = {"plugins": [{"type": "local", "path": "{home}/plug"}]}
EDITS = {"permission_mode": "acceptEdits"}
SERVER = {"notes": {"command": "python3", "args": [NOTES, "{home}/log"]}}

ROWS = (
    *(Row(f"allow {rule}", rules(allow=[rule]), "made", TOUCH) for rule in
      ("Bash(touch:*)", "Bash(touch *)", "Bash(touch made)", "Bash", "Bash(*)", "Bash(tou*)")),
    *(Row(f"allow {rule} is another", rules(allow=[rule]), "", TOUCH) for rule in
      ("Bash(touch)", "Bash(tou:*)", "bash(rm *)", "Read", "Bash(ls:*)")),
    *(Row(f"deny {rule}", rules(allow=["Bash"], deny=[rule]), "", TOUCH) for rule in
      ("Bash(touch:*)", "Bash", "Bash(* made)", "Bash(touch made)", "Bash(*)")),
    Row("ask where nobody answers", rules(allow=["Bash"], ask=["Bash(touch:*)"]), "", TOUCH),
    Row("allow a part of a compound", rules(allow=["Bash(echo:*)"]), "", bash("echo a && touch made")),
    Row("deny a part of a compound", rules(allow=["Bash"], deny=["Bash(touch:*)"]), "", bash("echo a; touch made")),
    *(Row(f"deny {rule}", SECRET | rules(deny=[rule]), "", reads(path)) for rule, path in (
        ("Read(./.env)", "{work}/.env"), ("Read(.env)", "{work}/.env"), ("Read(.env*)", "{work}/.env"),
        ("Read(**/*.pem)", "{work}/src/key.pem"), ("Read(*.pem)", "{work}/src/key.pem"),
        ("Read(~/secret/**)", "{home}/secret/a"), ("Read(/{home}/secret/**)", "{home}/secret/a"),
        ("Read(./src/**)", "{work}/src/key.pem"), ("Read", "{work}/.env"))),
    Row("deny to read, and cat", SECRET | rules(allow=["Bash"], deny=["Read(./.env)"]), "", bash("cat .env")),
    Row("allow to write in a folder", rules(allow=["Edit(./out/**)"]), "made", writes("{work}/out/made")),
    Row("deny to edit from the project's top", rules(LOCAL, deny=["Edit(/src/**)"]), "", writes("{work}/src/made"),
        given=EDITS),
    Row("mode acceptEdits", rules(defaultMode="acceptEdits"), "made", writes("{work}/made")),
    Row("mode plan", rules(defaultMode="plan"), "", writes("{work}/made")),
    Row("mode dontAsk", rules(defaultMode="dontAsk"), "", writes("{work}/made")),
    Row("further directories", rules(additionalDirectories=["{home}/other"]), "made", writes("{home}/other/made"),
        given=EDITS),
    Row("deny an agent", agent("") | rules(deny=["Task(scout)"]), "", SCOUT),
    Row("deny a skill", skill("description: d") | rules(deny=["Skill(greet)"]), "", USE),
    Row("env", settings(env={"FOO": "word-env"}, permissions={"allow": ["Bash"]}), "word-env", bash("echo $FOO")),
    Row("env of a project", settings(LOCAL, env={"FOO": "word-env"}) | rules(allow=["Bash"]), "word-env",
        bash("echo $FOO"), said="not trusted"),
    Row("hooks of a project", settings(LOCAL, hooks={"PreToolUse": [{"hooks": [{"type": "command", "command": NO}]}]})
        | rules(allow=["Bash"]), "word-no", TOUCH, said="not trusted"),
    *(Row(f"hook with matcher {matcher}", hook("PreToolUse", NO, matcher), theirs, TOUCH) for matcher, theirs in (
        ("Bash", "word-no"), ("*", "word-no"), ("", "word-no"), (None, "word-no"), (".*", "word-no"),
        ("Edit|Bash", "word-no"), ("Edit|Write|MultiEdit", "made"), ("mcp__.*", "made"), ("Ba", "made"),
        ("^Bash$", "word-no"))),
    Row("hook with a condition", hook("PreToolUse", NO, "Bash", hook={"if": "Bash(touch:*)"}), "word-no", TOUCH),
    Row("hook with another condition", hook("PreToolUse", NO, "Bash", hook={"if": "Bash(rm:*)"}), "made", TOUCH),
    Row("hook that denies in JSON", hook("PreToolUse", says(
        "PreToolUse", permissionDecision="deny", permissionDecisionReason="word-no")), "word-no", TOUCH),
    Row("hook that allows", hook("PreToolUse", says("PreToolUse", permissionDecision="allow"), allow=[]), "made",
        TOUCH),
    Row("hook that changes", hook("PreToolUse", says(
        "PreToolUse", permissionDecision="allow", updatedInput={"command": "touch made-other"})), "made-other", TOUCH),
    Row("hook that adds", hook("PostToolUse", says("PostToolUse", additionalContext="word-more")), "made word-more",
        TOUCH),
    Row("hook after a tool that blocks", hook("PostToolUse", NO), "made word-no", TOUCH),
    Row("hook of a prompt", hook("UserPromptSubmit", "echo word-more"), "word-more"),
    Row("hook that blocks a prompt", hook("UserPromptSubmit", NO), "unasked", prompts=("word-go",)),
    Row("hook of a start", hook("SessionStart", "echo word-more"), "word-more"),
    Row("hook of a start, by source", hook("SessionStart", "echo word-more", "startup"), "word-more"),
    Row("hook of another start", hook("SessionStart", "echo word-more", "resume"), ""),
    Row("hook of the end", hook("Stop", "test -e made-once && exit 0; touch made-once; echo word-no >&2; exit 2"),
        "made-once word-no", DONE * 2),
    Row("hooks off", hook("PreToolUse", NO, disableAllHooks=True), "made", TOUCH),
    Row("hook of a file", hook("PreToolUse", "sh \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/no.sh")
        | {".claude/hooks/no.sh": NO}, "word-no", TOUCH),
    Row("plugin: command", plugin({"commands/hey.md": "word-plug"}), "word-plug", prompts=("/plug:hey",), given=PLUG),
    Row("plugin: skill", plugin({"skills/greet/SKILL.md": written("description: d", "word-skill")}), "word-skill",
        calling("Skill", skill="plug:greet") + DONE, given=PLUG),
    Row("plugin: hooks", plugin({"hooks/hooks.json": json.dumps({"hooks": {"PreToolUse": [
        {"matcher": "Bash", "hooks": [{"type": "command", "command": "sh ${CLAUDE_PLUGIN_ROOT}/no.sh"}]}]}}),
        "no.sh": NO}) | rules(allow=["Bash"]), "word-no", TOUCH, given=PLUG),
    Row("plugin: agent", plugin({"agents/scout.md": written("name: scout\ndescription: d", "word-agent")}),
        "bash word-agent", SCOUT.replace("scout", "plug:scout"), given=PLUG),
    Row("plugin: server", plugin({".mcp.json": json.dumps({"mcpServers": SERVER})}), "mcp", given=PLUG,
        said="not used here: .mcp.json"),
    Row("command: $ARGUMENTS", command("description: d\nargument-hint: [n]", "word-$ARGUMENTS"), "word-7",
        prompts=("/look 7",)),
    Row("command: $1 and $2", command("description: d", "word-$0 word-$1"), "word-a word-b", prompts=("/look a b",)),
    Row("command: quoted arguments", command("description: d", "word-$1 word-$2"), "word-c",
        prompts=('/look "a b" c',)),
    Row("command: $ARGUMENTS[0]", command("description: d", "word-$ARGUMENTS[0]"), "word-a", prompts=("/look a b",)),
    Row("command: no place for arguments", command("description: d", "word-look"), "word-look word-tail",
        prompts=("/look word-tail",)),
    Row("command: a program's output", command("allowed-tools: Bash(echo:*)", "!`echo word-ran`"), "word-ran",
        prompts=("/look",), said="not used here: allowed-tools, !`command`"),
    Row("command: a file", command("description: d", "See @note.txt") | {"note.txt": "word-note"}, "word-note",
        prompts=("/look",)),
    Row("command: in a folder", command("description: d", "word-pr", "git/pr"), "word-pr", prompts=("/git:pr",)),
    Row("command: model", command("description: d\nmodel: haiku", "word-look"), "haiku word-look", prompts=("/look",),
        said="not used here: model"),
    Row("command: of a project", {".claude/commands/look.md": "word-look"}, "word-look", prompts=("/look",)),
    Row("skill", skill("name: greet\ndescription: d"), "word-skill", USE),
    Row("skill: listed", skill("name: greet\ndescription: >\n  word-folded\n  text\nlicense: MIT"), "word-folded"),
    Row("skill: quoted", skill("name: greet\ndescription: \"word-quoted: text\""), "word-quoted"),
    Row("skill: when to use", skill("name: greet\ndescription: d\nwhen_to_use: word-when"), "word-when"),
    Row("skill: by its folder", skill("name: other\ndescription: d"), "word-skill", prompts=("/greet",)),
    Row("skill: reserved for people", skill("description: d\ndisable-model-invocation: true"), "", USE),
    Row("skill: typed", skill("description: d", "word-$ARGUMENTS"), "word-7", prompts=("/greet 7",)),
    Row("skill: its folder's name", skill("description: d", "in ${CLAUDE_SKILL_DIR}/word-file"), "word-file", USE),
    Row("skill: not for people", skill("description: d\nuser-invocable: false"), "unasked", prompts=("/greet",)),
    Row("skill: allowed tools", skill("description: d\nallowed-tools: Bash(touch:*)"), "",
        calling("Skill", skill="greet") + TOUCH, said="not used here: allowed-tools"),
    *(Row(f"agent with {header!r}", agent(header), theirs, SCOUT) for header, theirs in (
        ("", "bash word-agent"), ("tools: Read, Bash", "bash word-agent"), ("tools: Read, Grep", "word-agent"),
        ("tools: [Read, Grep]", "word-agent"), ("tools:\n  - Read\n  - Grep", "word-agent"),
        ("tools: []", "word-agent"), ("tools:", "bash word-agent"), ('tools: "*"', "bash word-agent"),
        ("disallowedTools: Bash", "word-agent"),
        ("disallowedTools: [Bash]", "word-agent"), ("model: inherit\ncolor: red", "bash word-agent"),
        ("model: haiku", "bash haiku word-agent"))),
    Row("agent with a skill", agent("skills: greet") | skill("description: d"), "bash word-agent word-skill", SCOUT),
    Row("agent with a mode", agent("permissionMode: plan"), "bash word-agent", SCOUT, said="permissionMode"),
    Row("memory", {"claude/CLAUDE.md": "word-user", "CLAUDE.md": "word-project", "CLAUDE.local.md": "word-local"},
        "word-local word-project word-user"),
    Row("memory that includes", {"CLAUDE.md": "See @docs/a.md", "docs/a.md": "word-a @b.md", "docs/b.md": "word-b"},
        "word-a word-b"),
    Row("memory that includes from home", {"claude/CLAUDE.md": "See @~/notes.md", "../notes.md": "word-home"},
        "word-home"),
    Row("memory that includes by its whole path", {"claude/CLAUDE.md": "@{home}/notes.md", "../notes.md": "word-home"},
        "word-home"),
    Row("memory that is too long", {"CLAUDE.md": "x" * 70_000 + " word-end"}, "word-end", said="is too long"),
    Row("memory in code", {"CLAUDE.md": "`@docs/a.md`", "docs/a.md": "word-a"}, ""),
    Row("output style", settings(outputStyle="Terse") | {
        "claude/output-styles/terse.md": written("name: Terse\ndescription: d", "word-style")}, "word-style"),
    Row("looks", settings(statusLine={"type": "command", "command": "echo"}, theme="dark"), ""),
    Row("a setting nobody knows", settings(frobnicate={"deep": 1}), "", said="not known here: frobnicate"),
    Row("server of the person", {"claude/.claude.json": json.dumps({"mcpServers": SERVER})}, "mcp"),
    Row("server of the person for a project",
        {"claude/.claude.json": json.dumps({"projects": {"{work}": {"mcpServers": SERVER}}})}, "mcp"),
    Row("server of a project", {".mcp.json": json.dumps({"mcpServers": SERVER})}
        | settings(enableAllProjectMcpServers=True), "mcp", said="not trusted"),
    Row("server of a project that is disabled", {".mcp.json": json.dumps({"mcpServers": SERVER})}
        | settings(enableAllProjectMcpServers=True, disabledMcpjsonServers=["notes"]), "",
        said="not used here: enableAllProjectMcpServers"),
)  # fmt: skip


def effects(seen: Seen) -> str:
    found = {path.name for path in seen.home.rglob("made*") if path.is_file()} | (set() if seen.told else {"unasked"})
    asked = json.dumps([[one.get("system"), one["messages"], one.get("tools")] for one in seen.told])
    found |= set(re.findall(r"word-\w+", asked))
    for one in seen.told:
        names = {tool["name"].lower() for tool in one.get("tools") or ()}
        found |= {"bash"} if "word-agent" in json.dumps(one.get("system")) and "bash" in names else set()
        found |= {"haiku"} if "haiku" in one["model"] else set()
    servers = [one["name"] for one in seen.init.get("mcp_servers") or () if one["status"] != "failed"]
    servers += [tool["name"] for one in seen.told for tool in one.get("tools") or ()]
    return " ".join(sorted(found | ({"mcp"} if any("notes" in name for name in servers) else set())))


async def seen_of(row: Row, program: str, home: Path) -> Seen:
    def filled(text: str) -> str:
        return text.replace("{home}", str(home)).replace("{work}", str(home / "work"))

    given = {"setting_sources": ["user", "project", "local"], **json.loads(filled(json.dumps(row.given)))}
    files = {name: filled(text) for name, text in row.files.items()}
    return await drive(program, home, filled(row.script), *row.prompts, files=files, **given)


def _add(row: Row) -> None:
    async def run(program: str, home: Path) -> Facts:
        seen = await seen_of(row, program, home)
        noted = {} if program == "treadle" else {"as noted": effects(seen) == row.theirs}
        return {"effects": effects(seen), "_said": seen.said, **({"as noted": True} | noted)}

    SCENARIOS[f"files: {row.name}"] = run


for _row in ROWS:
    _add(_row)
