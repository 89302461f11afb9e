# ruff: noqa: E501
# fmt: off
"""Directories in the shapes that public repositories have: each is a few files, options and a prompt."""

import json
from typing import Any, NamedTuple

from tests.differential.driving import DONE, calling
from tests.differential.files import NO, NOTES, SERVER, agent, command, plugin, reads, settings, skill, writes, written
from tests.differential.reasons import STOPS
from tests.differential.scenarios import bash


class Case(NamedTuple):
    name: str
    files: dict[str, str]
    script: str = DONE
    prompt: str = "go"
    args: tuple[str, ...] = ()
    said: str = ""
    env: dict[str, str] = {}
    named: str = "^((look|greet|scout|other|git|deep)$|plug:|git:)"
    offers: bool = False
    trusted: bool = True
    inside: str = "."


AWAITED = "a subagent is waited for, unless it is to run in the background, where Claude Code has it by itself"
WITHIN = "`cd` into the workspace adds nothing: the rule names the same as `touch sub/made` (docs/reference/permissions.md)"
PARTED = "allowed by the rules for its parts"
CASES_OF_NAMES = "the case of a tool's name does not matter in rules (docs/reference/permissions.md)"
MEANT: dict[tuple[str, str], str] = {
    ("flag:*", "tools"): "what denies `Read` denies the tools that search; some tools of Claude Code are not here, or only where there is something to load",
    ("allow Bash(touch:[*]): cd sub && touch made", "denied"): WITHIN,
    **{(f"*{name}*", fact): CASES_OF_NAMES for name in ("allowedTools bash", "tools: bash") for fact in ("made", "contents", "failed", "denied", "words")},
    ("hook SessionStart: its input", "hooks"): "`model` is given always, not only where one was chosen",
    ("flag:  --max-turns 1", "subtype"): "the subtypes of `-p` are seed 002's",
    ("hook UserPromptSubmit*", "result"): "the same refusal in our words",
    **{("hook PreToolUse: stop", fact): STOPS for fact in ("made", "contents", "failed", "result")},
    **{(name, fact): AWAITED for name in ("*agent*", "hook Subagent*", "hook: matcher 'Task'", "hook: matcher 'Agent'") for fact in ("asked", "models", "failed")},
}
TOUCH = bash("touch made")
SCOUT = calling("Task", prompt="look", description="d", subagent_type="scout") + DONE * 2
USE = calling("Skill", skill="greet") + DONE
ALLOW = ("--allowedTools", "Bash", "Write", "Edit", "Skill")
PROJECT, LOCAL, USER = ".claude/settings.json", ".claude/settings.local.json", "claude/settings.json"
LOGS = 'cat >> "$LOG"; echo >> "$LOG"'

# Front matter: the same header, in the shapes that people and their editors give it.
HEADERS = {
    "plain": "description: word-a",
    "double quotes": 'description: "word-a \\"word-b\\" \\u0077ord-c"',
    "single quotes": "description: 'word-a: it''s word-b'",
    "folded": "description: >\n  word-a\n  word-b\nlicense: MIT",
    "folded, stripped": "description: >-\n  word-a\n\n  word-b",
    "literal": "description: |\n  word-a\n    word-b",
    "literal with a number": "description: |2\n    word-a\n  word-b",
    "plain over lines": "description: word-a\n  word-b\n  word-c",
    "a colon inside": "description: Use it: word-a",
    "examples on one line": 'description: Use when word-a. <example>Context: x. user: "Do it" assistant: "word-b"</example>',
    "written newlines": "description: word-a\\n\\nword-b\\n<example>\\nuser: 'x'\\n</example>",
    "a comment": "description: word-a # word-b",
    "a hash without space": "description: word-a#word-b",
    "brackets first": "description: [word-a] and word-b",
    "braces first": "description: {word-a} and word-b",
    "an at sign first": "description: @word-a",
    "a backtick first": "description: `word-a` x",
    "a star first": "description: *word-a* x",
    "an ampersand": "description: word-a & word-b",
    "a percent": "description: 50% of word-a",
    "an exclamation": "description: !word-a x",
    "a dash first": "description: - word-a",
    "a number": "description: 42\nwhen_to_use: word-a",
    "true": "description: true\nwhen_to_use: word-a",
    "null": "description: ~\nwhen_to_use: word-a",
    "a list": "description: [word-a, word-b]",
    "upper case": "Description: word-a",
    "a tab after the colon": "description:\tword-a",
    "a space before the colon": "description : word-a",
    "quoted key": '"description": word-a',
    "indented by a tab": "description: word-a\n\tword-b",
    "metadata": 'description: word-a\nmetadata:\n  author: word-b\n  version: "1.0"',
    "unknown keys": "description: word-a\nfrobnicate: word-b",
    "twice": "description: word-a\ndescription: word-b",
    "a blank line": "\ndescription: word-a\n",
    "an emoji": "description: word-a \U0001f680 \u00e9",
    "no description": "name: greet",
    "empty": "",
    "long": f"description: word-a {'x ' * 1000} word-b",
    "a url": "description: see https://example.org/a word-a",
    "trailing colon": "description: word-a:",
    "an anchor": "x: &a word-a\ndescription: *a",
    "a document end": "description: word-a\n...",
}
KINDS = {"skill": skill, "command": command, "agent": lambda header, body="b": {"claude/agents/scout.md": f"---\nname: scout\n{header}\n---\n{body}\n"}}
UNKNOWN = {"unknown keys": "frobnicate"}
HEADED = [Case(f"header of {kind}: {name}", make(header, "word-body"), said=UNKNOWN.get(name, ""), **({"prompt": "/look 1"} if kind == "command" else {"script": SCOUT} if kind == "agent" else {"script": USE})) for kind, make in KINDS.items() for name, header in HEADERS.items()]
TEXTS = {
    "lines of Windows": lambda text: text.replace("\n", "\r\n"),
    "a mark of order": lambda text: "\ufeff" + text,
    "spaces after the line": lambda text: text.replace("---\n", "---  \n"),
    "a line before": lambda text: "\n" + text,
    "no end": lambda text: text.replace("\n---\nword-body", "\nword-body"),
    "four dashes": lambda text: text.replace("---\n", "----\n"),
    "no newline at the end": lambda text: text.rstrip("\n"),
    "a rule in the body": lambda text: text + "\n---\nword-more\n",
}
TYPED = {"skill": skill("description: word-a", "word-body"), "command": command("description: word-a", "word-body"), "agent": {"claude/agents/scout.md": written("name: scout\ndescription: word-a", "word-body")}}
HEADED += [Case(f"text of {kind}: {name}", {path: change(text) for path, text in files.items()}, **({"prompt": "/look 1"} if kind == "command" else {"script": SCOUT} if kind == "agent" else {"script": USE})) for kind, files in TYPED.items() for name, change in TEXTS.items()]
MADE_BY = calling("Task", prompt="look", description="d", subagent_type="scout") + TOUCH
HEADED += [
    Case(f"tools of an agent: {header!r}", {"claude/agents/scout.md": written(f"name: scout\ndescription: d\n{header}", "word-agent")}, MADE_BY, args=ALLOW)
    for header in (
        "tools: Read, Bash",
        "tools: Read Bash",
        "tools: [Read, 'Bash']",
        'tools: "Read, Grep"',
        "tools:\n  - Read\n  - Bash",
        "tools:\n- Read",
        "tools: ['*']",
        "tools: Bash(ls:*)",
        "tools: Bash(touch:*), Read",
        "tools: bash",
        "tools: null",
        "tools: Read, # Bash",
        "Tools: Read",
        "tools : Read",
        "allowed-tools: Read",
        "disallowedTools: Bash(touch:*)",
        "disallowedTools:\n  - Bash\n  - Write",
        "disallowed-tools: Bash",
        "tools: Read\ndisallowedTools: Read",
        "tools: All tools",
        "tools: mcp__notes__add, Read",
        "tools: Nothing",
        "tools: >-\n  Read,\n  Grep",
    )
]

# Who wins: one setting in several places.
PLACES = {"user": USER, "project": PROJECT, "local": LOCAL}
ENV = {name: {place: json.dumps({"env": {"A": f"word-{name}"}})} for name, place in PLACES.items()}
ECHO = bash("echo $A")
GIVEN = ("--settings", json.dumps({"env": {"A": "word-given"}}))
MODELS = {name: {place: json.dumps({"model": model})} for (name, place), model in zip(PLACES.items(), ("haiku", "sonnet", "opus"), strict=True)}
WINS = [
    *(Case(f"wins: env of {' '.join(names)}{' given' if more else ''}", {k: v for name in names for k, v in ENV[name].items()}, ECHO, args=(*ALLOW, *more)) for names in (("user",), ("project",), ("local",), ("user", "project"), ("project", "local"), ("user", "local")) for more in ((), GIVEN)),
    *(Case(f"wins: model of {' '.join(names)} {' '.join(more)}", {k: v for name in names for k, v in MODELS[name].items()}, args=more) for names in (("user",), ("project",), ("local",), ("user", "project", "local")) for more in ((), ("--model", "opus"), ("--settings", '{"model": "opus"}'))),
    *(Case(f"wins: sources {sources!r}", ENV["user"] | ENV["project"] | ENV["local"], ECHO, args=(*ALLOW, "--setting-sources", sources)) for sources in ("user", "project", "local", "user,project", "user, local", "")),
    *(
        Case(f"wins: {verdict} of {one} over allow of {other}", {PLACES[one]: json.dumps({"permissions": {verdict: ["Bash(touch:*)"]}}), PLACES[other]: json.dumps({"permissions": {"allow": ["Bash(touch:*)"]}})}, TOUCH)
        for verdict in ("deny", "ask")
        for one, other in (("user", "project"), ("local", "user"), ("project", "local"))
    ),
    Case("wins: settings of a file", {"s.json": '{"env": {"A": "word-file"}}'}, ECHO, args=(*ALLOW, "--settings", "s.json")),
    Case("wins: settings of no file", {}, args=("--settings", "none.json")),
    Case("wins: settings that are no JSON", {}, args=("--settings", "{env")),
    Case("wins: a settings file that is no JSON", {PROJECT: '{"env": {"A": "word-x",}}'}, ECHO, args=ALLOW),
    Case("wins: a settings file with comments", {PROJECT: '{\n// c\n"env": {"A": "word-x"}}'}, ECHO, args=ALLOW),
    Case("wins: an empty settings file", {PROJECT: ""}, ECHO, args=ALLOW),
    Case("wins: a settings file with a mark", {PROJECT: '\ufeff{"env": {"A": "word-x"}}'}, ECHO, args=ALLOW),
    Case("wins: a number in env", {USER: '{"env": {"A": 7}}'}, bash("echo word-$A"), args=ALLOW),
    Case("wins: a truth in env", {USER: '{"env": {"A": true}}'}, bash("echo word-$A"), args=ALLOW),
    Case("wins: a wrong type of permissions", {USER: '{"permissions": {"allow": "Bash"}}'}, TOUCH),
    Case("wins: a wrong rule among others", {USER: '{"permissions": {"allow": ["Bash", 7]}}'}, TOUCH),
    Case("wins: a wrong mode", {USER: '{"permissions": {"defaultMode": "nothing", "allow": ["Bash"]}}'}, TOUCH),
    Case("wins: settings above", {PROJECT: '{"env": {"A": "word-top"}}', "sub/x": "", ".git/HEAD": "ref: refs/heads/main"}, ECHO, args=ALLOW, inside="sub"),
    Case("wins: model of the environment", MODELS["user"], env={"ANTHROPIC_MODEL": "sonnet"}),
    *(Case(f"model {name}", {}, args=("--model", name)) for name in ("opus", "sonnet", "haiku", "claude-sonnet-4-5", "claude-opus-4-1-20250805", "sonnet[1m]", "opusplan", "default", "nothing")),
    Case("model of a family", {}, args=("--model", "haiku"), env={"ANTHROPIC_DEFAULT_HAIKU_MODEL": "claude-mine"}),
    Case("model in env of settings", settings(env={"ANTHROPIC_MODEL": "haiku"})),
]


# Rules against commands and paths.
def ruled(verdict: str, rule: str, script: str, name: str, **more: Any) -> Case:
    table = {"allow": ["Bash", "Write", "Edit", "Read"]} if verdict != "allow" else {}
    return Case(f"{verdict} {rule}: {name}", settings(permissions=table | {verdict: [rule]}), script, **more)


COMMANDS = (
    ("Bash(touch:*)", "touch made"),
    ("Bash(touch:*)", "touchy made; touch made2"),
    ("Bash(touch made:*)", "touch made"),
    ("Bash(touch made:*)", "touch made2"),
    ("Bash(touch * made2)", "touch made made2"),
    ("Bash(*made)", "touch made"),
    ("Bash(touch made )", "touch made"),
    (" Bash(touch:*) ", "touch made"),
    ("Bash( touch:*)", "touch made"),
    ("Bash(touch:* )", "touch made"),
    ("Bash(touch :*)", "touch made"),
    ("Bash(:*)", "touch made"),
    ("Bash()", "touch made"),
    ("Bash(touch*)", "touch made"),
    ("Bash(t*h made)", "touch made"),
    ("Bash(FOO=1 touch:*)", "FOO=1 touch made"),
    ("Bash(touch:*)", "FOO=1 touch made"),
    ("Bash(touch:*)", "timeout 5 touch made"),
    ("Bash(touch:*)", "nohup touch made"),
    ("Bash(touch:*)", "touch made && touch made2"),
    ("Bash(touch:*)", "touch made | cat"),
    ("Bash(touch:*)", "touch $(echo made)"),
    ("Bash(touch:*)", "touch made > madeb"),
    ("Bash(touch:*)", "(touch made)"),
    ("Bash(touch:*)", "bash -c 'touch made'"),
    ("Bash(touch:*)", "touch made &"),
    ("Bash(touch:*)", "touch made\ntouch made2"),
    ("Bash(touch:*)", "touch 'made x'"),
    ("Bash(touch:*)", "# word\ntouch made"),
    ("Bash(touch:*)", "  touch made  "),
    ("Bash(touch:*)", "xargs touch < names"),
    ("Bash(npm run test:*)", "npm run test"),
    ("Bash(npm run:*)", "npm run x; touch made"),
    ("Bash(git commit -m:*)", "git commit -m 'x: y'"),
    ("bash(touch:*)", "touch made"),
    ("Bash(touch: *)", "touch made"),
    ("Bash(touch:*)", "/usr/bin/touch made"),
    ("Bash(touch:*)", "env touch made"),
    ("Bash(touch:*)", "command touch made"),
    ("Bash(touch:*)", "if true; then touch made; fi"),
    ("Bash(touch:*)", "for i in 1 2; do touch made$i; done"),
    ("Bash(touch:*)", "cd sub && touch made"),
    ("Bash(touch:*)", "true || touch made"),
    ("Bash(touch:*)", "cat <<EOF > made\nx\nEOF"),
    ("Bash(echo:*)", "echo x > made"),
    ("Bash(echo:*)", "echo `touch made`"),
    ("Bash(python3 -c *)", "python3 -c \"open('made','w')\""),
    ("Bash(sed:*)", "touch made && sed -i s/a/b/ made"),
    ("Bash(*)", "touch made"),
    ("*", "touch made"),
    ("Bash(**)", "touch made"),
    ("Bash(touch ?ade)", "touch made"),
    ("Bash(touch [m]ade)", "touch made"),
)
PARTS = ("(touch made)", "bash -c 'touch made'", "touch made &")
RULED = [ruled(verdict, rule, bash(text), text, said=PARTED * (verdict == "allow" and text in PARTS)) for rule, text in COMMANDS for verdict in ("allow", "deny")]
FILES = {".env": "word-secret", "../secret/a": "word-secret", "src/key.pem": "word-secret", "src/deep/b.txt": "word-secret", "a b/c.txt": "word-secret"}
PATHS = (
    ("Read(.env)", "{work}/.env"),
    ("Read(./.env)", "{work}/.env"),
    ("Read(//{home}/secret/**)", "{home}/secret/a"),
    ("Read(/{home}/secret/**)", "{home}/secret/a"),
    ("Read({home}/secret/a)", "{home}/secret/a"),
    ("Read(~/secret/*)", "{home}/secret/a"),
    ("Read(~/secret)", "{home}/secret/a"),
    ("Read(src)", "{work}/src/key.pem"),
    ("Read(src/)", "{work}/src/key.pem"),
    ("Read(src/*)", "{work}/src/deep/b.txt"),
    ("Read(src/**)", "{work}/src/deep/b.txt"),
    ("Read(**/b.txt)", "{work}/src/deep/b.txt"),
    ("Read(b.txt)", "{work}/src/deep/b.txt"),
    ("Read(*.pem)", "{work}/src/key.pem"),
    ("Read(**/*.{pem,key})", "{work}/src/key.pem"),
    ("Read(a b/**)", "{work}/a b/c.txt"),
    ("Read(../secret/**)", "{home}/secret/a"),
    ("Read(**)", "{work}/.env"),
    ("Read(*)", "{work}/.env"),
    ("Read(.env*)", "{work}/.env"),
    ("Read(./**/.env)", "{work}/.env"),
    ("Read(!.env)", "{work}/.env"),
    ("Read(SRC/**)", "{work}/src/key.pem"),
    ("Read(/src/**)", "{work}/src/key.pem"),
    ("Read()", "{work}/.env"),
    ("Edit(.env)", "{work}/.env"),
    ("Glob(.env)", "{work}/.env"),
    ("Read(src/**/b.txt)", "{work}/src/deep/b.txt"),
)
RULED += [Case(f"deny {rule} of {place}: {path}", FILES | {PLACES[place]: json.dumps({"permissions": {"deny": [rule]}})}, reads(path)) for place in ("user", "project") for rule, path in PATHS if place == "user" or rule.startswith(("Read(/", "Read(.", "Read(*", "Read(src"))]
RULED += [
    Case(f"deny {rule}: write {path}", settings(permissions={"allow": ["Write", "Edit"], "deny": [rule]}), writes(path))
    for rule, path in (("Edit(out/**)", "{work}/out/made"), ("Write(out/**)", "{work}/out/made"), ("Write", "{work}/made"), ("Edit", "{work}/made"), ("Write(made)", "{work}/made"), ("MultiEdit(made)", "{work}/made"), ("Edit(~/other/**)", "{home}/other/made"), ("Read(made)", "{work}/made"))
]
RULED += [
    Case(f"allow {rule}: write {path}", settings(permissions={"allow": [rule]}), writes(path))
    for rule, path in (
        ("Edit(out/**)", "{work}/out/made"),
        ("Write(out/**)", "{work}/out/made"),
        ("Write", "{work}/made"),
        ("Edit", "{work}/made"),
        ("Edit(made)", "{work}/made"),
        ("Edit(/out/**)", "{work}/out/made"),
        ("Edit(//{home}/other/**)", "{home}/other/made"),
        ("Edit(~/other/**)", "{home}/other/made"),
        ("Edit(*)", "{work}/made"),
        ("Edit(**)", "{home}/other/made"),
        ("Write(*)", "{work}/made"),
        ("Edit", "{home}/other/made"),
    )
]


# Hooks: each may write what it was given to a log.
def hooked(event: str, *commands: str, matcher: str | None = None, place: str = USER, **more: Any) -> dict[str, str]:
    group: dict[str, Any] = {"hooks": [{"type": "command", "command": text, **more} for text in commands]}
    group |= {"matcher": matcher} if matcher is not None else {}
    return {place: json.dumps({"hooks": {event: [group]}, "permissions": {"allow": ["Bash", "Edit", "Write"]}})}


def answers(**table: Any) -> str:
    return f"echo '{json.dumps(table)}'"


def specific(event: str, **table: Any) -> str:
    return answers(hookSpecificOutput={"hookEventName": event, **table})


EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SessionStart", "SessionEnd", "SubagentStart", "SubagentStop", "Notification", "PermissionRequest", "PermissionDenied", "InstructionsLoaded", "PostToolBatch")
EXITS = {"1": "echo w''ord-out; echo w''ord-err >&2; exit 1", "2": "echo w''ord-out; echo w''ord-err >&2; exit 2", "0": "echo w''ord-out; echo w''ord-err >&2", "3": "exit 3", "127": "no-such-program", "a signal": "kill -9 $$"}
ANSWERS = {
    "block": answers(decision="block", reason="word-why"),
    "approve": answers(decision="approve", reason="word-why"),
    "stop": answers(**{"continue": False, "stopReason": "word-stop"}),
    "a message": answers(systemMessage="word-message"),
    "no JSON": "echo '{word-broken'",
    "an array": "echo '[1]'",
    "a text after JSON": f"{answers(decision='block', reason='word-why')}; echo word-more",
    "an unknown field": answers(decision="block", reason="word-why", other=1),
    "a wrong decision": answers(decision="maybe", reason="word-why"),
    "a context": answers(additionalContext="word-context"),
    "silence": answers(suppressOutput=True),
}
DECISIONS = [
    ("deny", {"permissionDecision": "deny", "permissionDecisionReason": "word-why"}),
    ("allow", {"permissionDecision": "allow"}),
    ("ask", {"permissionDecision": "ask", "permissionDecisionReason": "word-why"}),
    ("deny without a reason", {"permissionDecision": "deny"}),
    ("a wrong one", {"permissionDecision": "maybe"}),
    ("another input", {"updatedInput": {"command": "touch made2"}}),
    ("allow, another input", {"permissionDecision": "allow", "updatedInput": {"command": "touch made2"}}),
    ("context", {"additionalContext": "word-context"}),
]
VARIABLES = 'echo "$CLAUDE_PROJECT_DIR|$PWD|${CLAUDE_CODE_REMOTE:-}|$CLAUDE_PLUGIN_ROOT" >> "$LOG"'
HOOKS = [
    *(Case(f"hook {event}: its input", hooked(event, LOGS), bash("touch made; exit 3" if "Failure" in event else "touch made")) for event in EVENTS if event not in ("SubagentStart", "SubagentStop", "PermissionRequest", "PermissionDenied")),
    *(Case(f"hook {event}: its input", hooked(event, LOGS) | agent(""), SCOUT) for event in ("SubagentStart", "SubagentStop")),
    *(Case(f"hook {event}: its input", {USER: hooked(event, LOGS)[USER].replace('"Bash"', '"Read"')}, TOUCH) for event in ("PermissionRequest", "PermissionDenied")),
    *(Case(f"hook {event}: exit {name}", hooked(event, text), TOUCH) for name, text in EXITS.items() for event in ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SessionStart") if (event, name) != ("Stop", "2")),
    *(Case(f"hook {event}: {name}", hooked(event, text), TOUCH) for name, text in ANSWERS.items() for event in ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SessionStart") if (event, name[:2]) not in (("Stop", "bl"), ("Stop", "an"), ("Stop", "a "))),
    *(Case(f"hook PreToolUse: {name}", hooked("PreToolUse", specific("PreToolUse", **table)), TOUCH) for name, table in DECISIONS),
    *(Case(f"hook PreToolUse, not allowed: {name}", {USER: hooked("PreToolUse", specific("PreToolUse", **table))[USER].replace('"Bash", ', "")}, TOUCH) for name, table in DECISIONS),
    *(Case(f"hook PostToolUse: {name}", hooked("PostToolUse", specific("PostToolUse", **table)), TOUCH) for name, table in (("context", {"additionalContext": "word-context"}), ("another output", {"updatedToolOutput": "word-other"}))),
    *(Case(f"hook {event}: a context of its own", hooked(event, specific(event, additionalContext="word-context")), TOUCH) for event in ("UserPromptSubmit", "SessionStart", "PostToolUseFailure", "PostToolBatch", "SubagentStart", "Stop")),
    *(Case(f"hook two: {' then '.join(names)}", hooked("PreToolUse", *(specific("PreToolUse", **dict(DECISIONS)[name]) for name in names)), TOUCH) for names in (("deny", "allow"), ("allow", "deny"), ("ask", "allow"), ("allow", "another input"), ("context", "deny"))),
    *(
        Case(f"hook PermissionRequest: {name}", {USER: hooked("PermissionRequest", specific("PermissionRequest", decision=table))[USER].replace('"Bash", ', "")}, TOUCH)
        for name, table in (("allow", {"behavior": "allow"}), ("deny", {"behavior": "deny", "message": "word-why"}), ("another input", {"behavior": "allow", "updatedInput": {"command": "touch made2"}}))
    ),
    Case("hook: its variables", hooked("PreToolUse", VARIABLES), TOUCH),
    Case("hook: its variables, below", hooked("PreToolUse", VARIABLES) | {"sub/x": "", ".git/HEAD": "ref: refs/heads/main", ".git/objects/x": "", ".git/refs/x": ""}, TOUCH, inside="sub"),
    Case("hook: too slow", hooked("PreToolUse", "sleep 20; exit 2", timeout=1), TOUCH),
    Case("hook: in the background", hooked("PreToolUse", "exit 2", **{"async": True}), TOUCH),
    Case("hook: twice the same", hooked("PreToolUse", LOGS, LOGS), TOUCH),
    Case("hook: of two places", hooked("PreToolUse", LOGS) | hooked("PreToolUse", LOGS, place=PROJECT), TOUCH),
    Case("hook: another of two places", hooked("PreToolUse", "echo 1 >> $LOG") | hooked("PreToolUse", "echo 1  >> $LOG", place=PROJECT), TOUCH),
    Case("hook: a script", hooked("PreToolUse", "$CLAUDE_PROJECT_DIR/.claude/hooks/no.sh", place=PROJECT) | {".claude/hooks/no.sh": f"#!/bin/sh\n{NO}"}, TOUCH),
    Case("hook: a relative script", hooked("PreToolUse", ".claude/hooks/no.sh", place=PROJECT) | {".claude/hooks/no.sh": f"#!/bin/sh\n{NO}"}, TOUCH),
    Case("hook: a script with arguments", hooked("PreToolUse", 'sh "$CLAUDE_PROJECT_DIR/.claude/a b.sh"') | {".claude/a b.sh": NO}, TOUCH),
    Case("hook: bash, not sh", hooked("PreToolUse", "[[ 1 == 1 ]] && exit 2"), TOUCH),
    Case("hook: not trusted", hooked("PreToolUse", NO, place=PROJECT), TOUCH, trusted=False, said="not trusted"),
    Case("hook: of a file given", {"h.json": hooked("PreToolUse", NO)[USER]}, TOUCH, args=("--settings", "h.json")),
    Case("hook: the old shape", {USER: json.dumps({"hooks": {"PreToolUse": [{"type": "command", "command": NO}]}, "permissions": {"allow": ["Bash"]}})}, TOUCH, said="hook"),
    Case("hook: an unknown event", {USER: json.dumps({"hooks": {"PreTool": [{"hooks": [{"type": "command", "command": NO}]}]}, "permissions": {"allow": ["Bash"]}})}, TOUCH, said="PreTool"),
    Case("hook: an event in small letters", {USER: json.dumps({"hooks": {"pretooluse": [{"hooks": [{"type": "command", "command": NO}]}]}, "permissions": {"allow": ["Bash"]}})}, TOUCH, said="pretooluse"),
    Case("hook: none off", {USER: json.dumps({**json.loads(hooked("PreToolUse", NO)[USER]), "disableAllHooks": False})}, TOUCH),
    *(
        Case(f"hook: matcher {matcher!r}", hooked("PreToolUse", NO, matcher=matcher), script)
        for matcher, script in (
            ("Bash", TOUCH),
            ("bash", TOUCH),
            ("Write|Bash", TOUCH),
            ("Write | Bash", TOUCH),
            ("Bash|", TOUCH),
            ("B.*", TOUCH),
            ("[B]ash", TOUCH),
            ("Bas", TOUCH),
            ("(Bash", TOUCH),
            ("Bash(touch:*)", TOUCH),
            ("*", TOUCH),
            ("^(?!Read).*$", TOUCH),
            ("Write,Bash", TOUCH),
            ("Task", SCOUT),
            ("Agent", SCOUT),
            ("Skill", USE),
            ("Edit|Write|MultiEdit", writes("{work}/made")),
            ("Edit", writes("{work}/made")),
            (".", TOUCH),
            ("!Read", TOUCH),
            (" Bash ", TOUCH),
            ("^(?!Read)", TOUCH),
            ("Bash|Edit", TOUCH),
            ("mcp__.*", TOUCH),
            ("", TOUCH),
            ("a.h", TOUCH),
        )
    ),
    *(Case(f"hook SessionStart: matcher {matcher!r}", hooked("SessionStart", "echo word-start", matcher=matcher)) for matcher in ("startup", "startup|resume", "resume", "*", "clear|compact", "start.*")),
    *(Case(f"hook: condition {rule!r}", hooked("PreToolUse", NO, matcher="Bash", **{"if": rule}), TOUCH) for rule in ("Bash(touch:*)", "Bash(touch *)", "Bash(rm *)", "Bash", "touch", "Edit(*)", "Bash(*made)")),
]
PLUG = ("--plugin-dir", "{home}/plug")


def plugged(name: str, files: dict[str, str], script: str = DONE, prompt: str = "go", said: str = "", args: tuple[str, ...] = (), **manifest: Any) -> Case:
    return Case(f"plugin: {name}", plugin(files, **manifest), script, prompt, args=(*ALLOW, *PLUG, *args), said=said)


PLUGHOOK = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "sh ${CLAUDE_PLUGIN_ROOT}/no.sh"}]}]}}
PLUGSKILL = calling("Skill", skill="plug:greet") + DONE
PLUGINS = [
    plugged("nothing", {}),
    plugged("command", {"commands/look.md": "word-look $ARGUMENTS"}, prompt="/plug:look 7"),
    plugged("command without the name", {"commands/look.md": "word-look"}, prompt="/look"),
    plugged("command below", {"commands/git/look.md": "word-look"}, prompt="/plug:git:look"),
    plugged("command with its root", {"commands/look.md": "word-look @${CLAUDE_PLUGIN_ROOT}/a.txt", "a.txt": "word-a"}, prompt="/plug:look"),
    plugged("command with a program", {"commands/look.md": written("allowed-tools: Bash(echo:*)", "!`echo word-$((1+1))`")}, prompt="/plug:look", said="!`command`"),
    plugged("commands elsewhere", {"more/look.md": "word-look"}, prompt="/plug:look", commands="./more", said="not used here: commands"),
    plugged("commands by file", {"more/look.md": "word-look"}, prompt="/plug:look", commands=["./more/look.md"], said="not used here: commands"),
    plugged("skill", {"skills/greet/SKILL.md": written("description: word-a", "word-skill")}, PLUGSKILL),
    plugged("skill with a name", {"skills/greet/SKILL.md": written("name: other\ndescription: word-a", "word-skill")}, PLUGSKILL),
    plugged("skills elsewhere", {"more/greet/SKILL.md": written("description: word-a", "word-skill")}, PLUGSKILL, skills="./more", said="not used here: skills"),
    plugged("skill at the top", {"SKILL.md": written("name: greet\ndescription: word-a", "word-skill")}, PLUGSKILL, said="SKILL.md"),
    plugged("agent", {"agents/scout.md": written("name: scout\ndescription: word-a", "word-agent")}, SCOUT.replace("scout", "plug:scout")),
    plugged("agent with tools", {"agents/scout.md": written("name: scout\ndescription: word-a\ntools: Read", "word-agent")}, MADE_BY.replace("scout", "plug:scout")),
    plugged("agents elsewhere", {"more/scout.md": written("name: scout\ndescription: word-a", "word-agent")}, SCOUT.replace("scout", "plug:scout"), agents=["./more/scout.md"], said="not used here: agents"),
    plugged("hooks", {"hooks/hooks.json": json.dumps(PLUGHOOK), "no.sh": NO}, TOUCH),
    plugged("hooks without their key", {"hooks/hooks.json": json.dumps(PLUGHOOK["hooks"]), "no.sh": NO}, TOUCH),
    plugged("hooks in the manifest", {"no.sh": NO}, TOUCH, hooks=PLUGHOOK),
    plugged("hooks in the manifest, bare", {"no.sh": NO}, TOUCH, hooks=PLUGHOOK["hooks"]),
    plugged("hooks in a file", {"my.json": json.dumps(PLUGHOOK), "no.sh": NO}, TOUCH, hooks="./my.json"),
    plugged("hooks with a description", {"hooks/hooks.json": json.dumps({"description": "d", **PLUGHOOK}), "no.sh": NO}, TOUCH),
    plugged("hooks that are broken", {"hooks/hooks.json": "{", "no.sh": NO}, TOUCH, said="hooks.json"),
    plugged("variables of hooks", {"hooks/hooks.json": json.dumps(PLUGHOOK), "no.sh": VARIABLES}, TOUCH),
    plugged("server", {".mcp.json": json.dumps({"mcpServers": SERVER})}, said=".mcp.json"),
    plugged("server in the manifest", {}, mcpServers=SERVER, said="mcpServers"),
    plugged("output style", {"output-styles/t.md": written("name: Terse\ndescription: d", "word-style")}, args=("--settings", '{"outputStyle": "plug:Terse"}'), said="not used here: output"),
    plugged("unknown keys", {"commands/look.md": "word-look"}, prompt="/plug:look", frobnicate=1, said="frobnicate"),
    plugged("everything of a manifest", {"commands/look.md": "word-look"}, prompt="/plug:look", version="1.0.0", description="d", author={"name": "a"}, homepage="https://e.org", repository="r", license="MIT", keywords=["a"]),
    Case("plugin: no manifest", {"../plug/commands/look.md": "word-look"}, prompt="/plug:look", args=PLUG),
    Case("plugin: a broken manifest", {"../plug/.claude-plugin/plugin.json": "{", "../plug/commands/look.md": "word-look"}, prompt="/plug:look", args=PLUG, said="plugin.json"),
    Case("plugin: no name", {"../plug/.claude-plugin/plugin.json": "{}", "../plug/commands/look.md": "word-look"}, prompt="/plug:look", args=PLUG, said="plugin.json"),
    Case("plugin: not there", {}, args=PLUG, said="plug"),
    Case("plugin: enabled", settings(enabledPlugins={"a@b": True}), said="enabledPlugins"),
]
DOCS = {"CLAUDE.md": "word-top", "sub/CLAUDE.md": "word-sub", ".git/HEAD": "ref: refs/heads/main", ".git/objects/x": "", ".git/refs/x": ""}
MEMORY = [
    Case(f"memory: {name}", files, **more)
    for name, files, more in (
        ("project", {"CLAUDE.md": "word-a"}, {}),
        ("small letters", {"claude.md": "word-a"}, {}),
        ("in .claude", {".claude/CLAUDE.md": "word-a"}, {}),
        ("both", {"CLAUDE.md": "word-a", ".claude/CLAUDE.md": "word-b"}, {}),
        ("local", {"CLAUDE.local.md": "word-a"}, {}),
        ("user", {"claude/CLAUDE.md": "word-a"}, {}),
        ("AGENTS.md", {"AGENTS.md": "word-a"}, {"said": "AGENTS.md"}),
        ("both kinds", {"AGENTS.md": "word-a", "CLAUDE.md": "@AGENTS.md word-b"}, {}),
        ("above", DOCS, {"inside": "sub"}),
        ("below", DOCS, {}),
        ("below, read", DOCS | {"sub/a.txt": "x"}, {"script": reads("{work}/sub/a.txt")}),
        ("below, local, read", {"sub/CLAUDE.local.md": "word-sub", "sub/a.txt": "x"}, {"script": reads("{work}/sub/a.txt")}),
        ("import", {"CLAUDE.md": "@a.md", "a.md": "word-a"}, {}),
        ("import with a dot", {"CLAUDE.md": "See @./a.md.", "a.md": "word-a"}, {}),
        ("import above", {"CLAUDE.md": "@../a.md", "../a.md": "word-a"}, {"said": "a.md"}),
        ("import of home", {"CLAUDE.md": "@~/a.md", "../a.md": "word-a"}, {"said": "a.md"}),
        ("import of home by the user", {"claude/CLAUDE.md": "@~/a.md", "../a.md": "word-a"}, {}),
        ("import in code", {"CLAUDE.md": "`@a.md`", "a.md": "word-a"}, {}),
        ("import in a fence", {"CLAUDE.md": "```\n@a.md\n```", "a.md": "word-a"}, {}),
        ("import in a fence of tildes", {"CLAUDE.md": "~~~\n@a.md\n~~~", "a.md": "word-a"}, {}),
        ("import indented", {"CLAUDE.md": "text\n\n    @a.md\n", "a.md": "word-a"}, {}),
        ("import in a list", {"CLAUDE.md": "- @a.md", "a.md": "word-a"}, {}),
        ("import in bold", {"CLAUDE.md": "**@a.md**", "a.md": "word-a"}, {}),
        ("import in brackets", {"CLAUDE.md": "(@a.md)", "a.md": "word-a"}, {}),
        ("import in quotes", {"CLAUDE.md": '"@a.md"', "a.md": "word-a"}, {}),
        ("import with a space", {"CLAUDE.md": "@my\\ docs/a.md", "my docs/a.md": "word-a"}, {}),
        ("import of text", {"CLAUDE.md": "@a.txt", "a.txt": "word-a"}, {}),
        ("import of a program", {"CLAUDE.md": "@a.py", "a.py": "word-a"}, {}),
        ("import of a picture", {"CLAUDE.md": "@a.png", "a.png": "word-a"}, {}),
        ("import without an end", {"CLAUDE.md": "@Makefile", "Makefile": "word-a"}, {}),
        ("import of .env", {"CLAUDE.md": "@.env", ".env": "word-a"}, {}),
        ("import of a folder", {"CLAUDE.md": "@docs", "docs/a.md": "word-a"}, {}),
        ("import missing", {"CLAUDE.md": "word-b @none.md"}, {}),
        ("import in a circle", {"CLAUDE.md": "@a.md", "a.md": "word-a @CLAUDE.md"}, {}),
        ("an address", {"CLAUDE.md": "mail me@a.md", "a.md": "word-a"}, {}),
        ("import deep", {"CLAUDE.md": "@d1.md", **{f"d{n}.md": f"word-d{n} @d{n + 1}.md" for n in range(1, 8)}}, {}),
        ("import in a comment", {"CLAUDE.md": "<!-- @a.md word-c -->", "a.md": "word-a"}, {}),
        ("a comment", {"CLAUDE.md": "<!-- word-a -->\nword-b"}, {}),
        ("a comment in a line", {"CLAUDE.md": "x <!-- word-a --> word-b"}, {}),
        ("a comment in a fence", {"CLAUDE.md": "```\n<!-- word-a -->\n```"}, {}),
        ("import with an anchor", {"CLAUDE.md": "@a.md#part", "a.md": "word-a"}, {}),
        ("import with a comma", {"CLAUDE.md": "see @a.md, then", "a.md": "word-a"}, {}),
        ("import by its whole path", {"CLAUDE.md": "@{work}/a.md", "a.md": "word-a"}, {}),
        ("front matter", {"CLAUDE.md": written("x: word-h", "word-a")}, {}),
        ("rules", {".claude/rules/a.md": "word-a"}, {}),
        ("rules below", {".claude/rules/b/a.md": "word-a"}, {}),
        ("rules of the user", {"claude/rules/a.md": "word-a"}, {}),
        ("rules for paths", {".claude/rules/a.md": written("paths: src/**", "word-a"), "src/a.txt": "x"}, {"script": reads("{work}/src/a.txt")}),
        ("rules for paths in a list", {".claude/rules/a.md": written('paths:\n  - "src/**/*.txt"', "word-a"), "src/a.txt": "x"}, {"script": reads("{work}/src/a.txt")}),
        ("rules for other paths", {".claude/rules/a.md": written("paths: lib/**", "word-a"), "src/a.txt": "x"}, {"script": reads("{work}/src/a.txt")}),
        ("rules for braces", {".claude/rules/a.md": written('paths: "**/*.{txt,md}"', "word-a"), "src/a.txt": "x"}, {"script": reads("{work}/src/a.txt")}),
        ("rules with globs", {".claude/rules/a.md": written("globs: src/**", "word-a")}, {}),
        ("rules that import", {".claude/rules/a.md": "@b.md", ".claude/rules/b.md": "word-b"}, {}),
        ("rules without paths", {".claude/rules/a.md": written("description: d", "word-a")}, {}),
        ("excluded", settings(claudeMdExcludes=["**/CLAUDE.md"]) | {"CLAUDE.md": "word-a"}, {"said": "claudeMdExcludes"}),
        ("sources user", {"CLAUDE.md": "word-a", "claude/CLAUDE.md": "word-b", "CLAUDE.local.md": "word-c"}, {"args": ("--setting-sources", "user")}),
        ("sources project", {"CLAUDE.md": "word-a", "claude/CLAUDE.md": "word-b", "CLAUDE.local.md": "word-c"}, {"args": ("--setting-sources", "project")}),
        ("added directory", {"../more/CLAUDE.md": "word-a"}, {"args": ("--add-dir", "{home}/more")}),
        ("added directory, wanted", {"../more/CLAUDE.md": "word-a"}, {"args": ("--add-dir", "{home}/more"), "env": {"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1"}, "said": "CLAUDE_CODE_ADDITIONAL"}),
        ("off", {"CLAUDE.md": "word-a"}, {"env": {"CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1"}, "said": "CLAUDE_CODE_DISABLE"}),
        ("long", {"CLAUDE.md": "x" * 70000 + " word-a"}, {"said": "CLAUDE.md"}),
        ("a mark of order", {"CLAUDE.md": "\ufeff@a.md", "a.md": "word-a"}, {}),
        ("lines of Windows", {"CLAUDE.md": "x\r\n@a.md\r\n", "a.md": "word-a"}, {}),
        ("in the prompt", {"a.md": "word-a"}, {"prompt": "see @a.md"}),
        ("a folder in the prompt", {"d/word-x": "y"}, {"prompt": "see @d"}),
        ("lines in the prompt", {"a.md": "word-1\nword-2\nword-3"}, {"prompt": "see @a.md#L2-3"}),
    )
]
LOOK = "claude/commands/look.md"
COMMANDED = [
    Case(f"command: {name}", {LOOK: text, **files}, prompt=prompt, **more)
    for name, text, prompt, files, more in (
        ("$ARGUMENTS", "word-$ARGUMENTS", "/look a b", {}, {}),
        ("$ARGUMENTS twice", "word-$ARGUMENTS word-$ARGUMENTS", "/look a", {}, {}),
        ("$0", "word-$0 word-$1 word-$2", "/look a b", {}, {}),
        ("$ARGUMENTS[1]", "word-$ARGUMENTS[1]", "/look a b", {}, {}),
        ("nothing given", "word-x$ARGUMENTS-y", "/look", {}, {}),
        ("$1 and nothing given", "word-x$1-y", "/look", {}, {}),
        ("quotes", "word-$0", '/look "a b" c', {}, {}),
        ("no place", "word-look", "/look word-tail", {}, {}),
        ("$10", "word-$10", "/look " + " ".join("abcdefghijkl"), {}, {}),
        ("${1}", "word-${1}", "/look a b", {}, {}),
        ("named", written("arguments: [first, second]", "word-$first word-$second"), "/look a b", {}, {"said": "arguments"}),
        ("an escaped dollar", "word-\\$ARGUMENTS", "/look a", {}, {}),
        ("money", "costs $100 word-a", "/look b", {}, {}),
        ("$ARGUMENTS in a word", "word-$ARGUMENTSx", "/look a", {}, {}),
        ("a program", written("allowed-tools: Bash(echo:*)", "!`echo word-$((1+1))`"), "/look", {}, {"said": "!`command`"}),
        ("a program not allowed", "!`touch made`", "/look", {}, {"said": "!`command`"}),
        ("a block of programs", written("allowed-tools: Bash", "```!\necho word-$((1+1))\n```"), "/look", {}, {"said": "!`command`"}),
        ("a file", "See @a.md", "/look", {"a.md": "word-a"}, {}),
        ("a file in arguments", "See $ARGUMENTS", "/look @a.md", {"a.md": "word-a"}, {}),
        ("allowed tools", written("allowed-tools: Bash(touch:*)", "x"), "/look", {}, {"script": TOUCH, "said": "allowed-tools"}),
        ("a model", written("model: haiku", "x"), "/look", {}, {"said": "model"}),
        ("a model that is inherited", written("model: inherit", "x"), "/look", {}, {}),
        ("a hint", written("argument-hint: [word-a]", "x"), "/look", {}, {}),
        ("not for the model", written("description: word-a\ndisable-model-invocation: true", "x"), "go", {}, {}),
        ("by the model", written("description: d", "word-look"), "go", {}, {"script": calling("Skill", skill="look") + DONE}),
        ("by the model, with arguments", written("description: d", "word-$ARGUMENTS"), "go", {}, {"script": calling("Skill", skill="look", args="7") + DONE}),
        ("by the model, with a slash", written("description: d", "word-look"), "go", {}, {"script": calling("Skill", skill="/look") + DONE}),
        ("of two places", "word-user", "/look", {".claude/commands/look.md": "word-project"}, {}),
        ("and a skill", "word-command", "/look", {"claude/skills/look/SKILL.md": written("description: d", "word-skill")}, {}),
        ("unknown", "x", "/nothing", {}, {}),
        ("a path as prompt", "x", "/usr/bin/env is where", {}, {}),
        ("in the middle", "word-look", "do /look now", {}, {}),
        ("empty", "", "/look", {}, {}),
        ("in capitals", "word-look", "/LOOK", {}, {}),
        ("below", "x", "/git:look", {"claude/commands/git/look.md": "word-git"}, {}),
        ("below without its folder", "x", "/pr", {"claude/commands/git/pr.md": "word-git"}, {}),
        ("a file that is no command", "x", "/other", {"claude/commands/other.txt": "word-x"}, {}),
        ("an agent", written("context: fork\nagent: Explore", "word-look"), "/look", {}, {"said": "context"}),
        ("a skill below", "x", "/deep", {"claude/skills/a/deep/SKILL.md": written("description: d", "word-deep")}, {}),
        ("a skill in small letters", "x", "/other", {"claude/skills/other/skill.md": written("description: d", "word-x")}, {}),
        ("a skill with a file", "x", "/other", {"claude/skills/other/SKILL.md": written("description: d", "@b.md [b](b.md) word-x"), "claude/skills/other/b.md": "word-b"}, {}),
        ("a skill of the project", "x", "/other", {".claude/skills/other/SKILL.md": written("description: d", "word-x")}, {}),
        ("a skill over another", "x", "/other", {"claude/skills/other/SKILL.md": written("description: word-u", "word-user"), ".claude/skills/other/SKILL.md": written("description: word-p", "word-project")}, {}),
        ("a skill for paths", "x", "go", {"claude/skills/other/SKILL.md": written("description: word-d\npaths: src/**", "word-x")}, {"said": "paths"}),
        ("a skill's session", "x", "/other", {"claude/skills/other/SKILL.md": written("description: d", "${CLAUDE_SESSION_ID}x word-x")}, {"said": "${CLAUDE_SESSION_ID}"}),
    )
]
TOOL = bash("echo word-$((1+1)); touch made")
FLAGS = [
    Case(f"flag: {' '.join((name, *args))}", files, script, args=args, **more)
    for name, args, files, script, more in (
        *(("", ("--allowedTools", *given), {}, TOUCH, {}) for given in (("Bash",), ("Bash(touch:*)",), ("Read", "Bash"), ("Read,Bash",), ("Read Bash",), ("Bash(touch made),Read",), ("Bash(ls:*) Bash(touch:*)",), ("bash",))),
        *(("", ("--disallowedTools", given, "--allowedTools", "Bash"), {}, TOUCH, {"offers": True}) for given in ("Bash", "Bash(touch:*)", "Read,Bash", "Edit Write", "bash", "Bash(rm:*)")),
        *(("", ("--tools", given, "--allowedTools", "Bash"), {}, TOUCH, {"offers": True}) for given in ("Bash", "", "default", "Read,Edit", "Bash,Nothing")),
        *(("", ("--permission-mode", mode), {}, script, {}) for mode in ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "nothing") for script in (TOUCH,)),
        *(("", ("--permission-mode", "acceptEdits"), {}, writes(path), {"named": path}) for path in ("{work}/made", "{home}/made", "{work}/.claude/settings.json", "{work}/.git/made")),
        ("", ("--append-system-prompt", "word-more"), {"CLAUDE.md": "word-a"}, DONE, {}),
        ("", ("--system-prompt", "word-system"), {"CLAUDE.md": "word-a"}, DONE, {}),
        ("", ("--agents", '{"scout": {"description": "word-d", "prompt": "word-agent", "tools": ["Read"]}}'), {}, MADE_BY, {}),
        ("", ("--agents", '{"scout": {"prompt": "x"}}'), {}, DONE, {}),
        ("", ("--agents", "{"), {}, DONE, {}),
        ("", ("--agent", "scout"), agent("tools: Read"), DONE, {"offers": True}),
        ("", ("--agent", "nothing"), {}, DONE, {}),
        ("", ("--max-turns", "1"), {}, TOUCH, {}),
        ("", ("--add-dir", "{home}/other", "--permission-mode", "acceptEdits"), {"../other/x": ""}, writes("{home}/other/made"), {}),
        ("", ("--add-dir", "{home}/none"), {}, DONE, {}),
        ("", ("--mcp-config", "m.json"), {"m.json": json.dumps({"mcpServers": SERVER})}, DONE, {}),
        ("", ("--mcp-config", json.dumps({"mcpServers": SERVER})), {}, DONE, {}),
        ("", ("--mcp-config", "none.json"), {}, DONE, {}),
        ("", ("--mcp-config", "{"), {}, DONE, {}),
        ("", ("--mcp-config", '{"mcpServers": {"a": {"command": "no-such-program"}}}'), {}, DONE, {}),
        ("", ("--mcp-config", '{"mcpServers": {"a": {"type": "http", "url": "${NOWHERE}"}}}'), {}, DONE, {}),
        ("", ("--mcp-config", '{"notes": {"command": "true"}}'), {}, DONE, {}),
        ("", ("--mcp-config", json.dumps({"mcpServers": {"notes": {"command": "${PY:-python3}", "args": [NOTES, "${LOG}"]}}})), {}, DONE, {}),
        ("", ("--strict-mcp-config",), {"claude/.claude.json": json.dumps({"mcpServers": SERVER})}, DONE, {}),
        ("", ("--frobnicate",), {}, DONE, {}),
        ("style", (), settings(outputStyle="Explanatory"), DONE, {}),
        ("style none", (), settings(outputStyle="Nothing"), DONE, {"said": "Nothing"}),
        ("", ("--disable-slash-commands",), command("", "word-a"), DONE, {"prompt": "/look"}),
        ("style of project", (), {PROJECT: '{"outputStyle": "mine"}', ".claude/output-styles/mine.md": written("description: d\nkeep-coding-instructions: true", "word-style")}, DONE, {}),
        ("language", (), settings(language="word-german"), DONE, {}),
        ("agent", (), settings(agent="scout") | agent("tools: Read"), DONE, {"offers": True}),
        ("company", (), settings(companyAnnouncements=["word-a"]), DONE, {"said": "companyAnnouncements"}),
        ("helper", (), settings(apiKeyHelper="echo key"), DONE, {"said": "apiKeyHelper"}),
        ("status", (), settings(statusLine={"type": "command", "command": "touch {home}/made"}), DONE, {}),
        ("dirs", ("--permission-mode", "acceptEdits"), settings(permissions={"additionalDirectories": ["../other"]}) | {"../other/x": ""}, writes("{home}/other/made"), {}),
        ("dirs from home", ("--permission-mode", "acceptEdits"), settings(permissions={"additionalDirectories": ["~/other"]}) | {"../other/x": ""}, writes("{home}/other/made"), {}),
        ("time-out", ALLOW, settings(env={"BASH_DEFAULT_TIMEOUT_MS": "1000"}), bash("sleep 3; touch made"), {}),
        ("shell", ALLOW, {}, bash("[[ a == a ]] && touch made"), {}),
        ("plan file", (), settings(plansDirectory="./plans"), DONE, {"said": "plansDirectory"}),
        ("attribution", (), settings(includeCoAuthoredBy=False, attribution={"commit": ""}), DONE, {}),
        ("git instructions", (), settings(includeGitInstructions=False), DONE, {}),
        ("thinking", (), settings(alwaysThinkingEnabled=True), DONE, {"said": "alwaysThinkingEnabled"}),
        ("deny server", (), settings(deniedMcpServers=[{"serverName": "notes"}]) | {"claude/.claude.json": json.dumps({"mcpServers": SERVER})}, DONE, {"said": "deniedMcpServers"}),
        ("skills off", (), settings(disableBundledSkills=True), DONE, {}),
        ("deny server's tools", (), settings(permissions={"deny": ["mcp__notes"]}) | {"claude/.claude.json": json.dumps({"mcpServers": SERVER})}, DONE, {}),
        ("skill overrides", (), settings(skillOverrides={"greet": "off"}) | skill("description: word-a"), DONE, {"said": "skillOverrides"}),
    )
]
CASES = [*HEADED, *WINS, *RULED, *HOOKS, *PLUGINS, *MEMORY, *COMMANDED, *FLAGS]
