"""Scripts as people publish them for `claude -p` and `codex exec`, run word for word with our command by those names.

Each is a shell script, what the scripted model says, and what the script prints.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import need
from tests.installed import TREADLE
from tests.scripts import reply
from tests.tiers import spread

SAYS = '[[reply]]\ntimes = "always"\ntext = "{}"\nusage = {{ input = 12, output = 3 }}\n'


def says(text: str) -> str:
    return SAYS.format(text)


def calls(name: str, then: str = "Done.", **arguments: object) -> str:
    given = ", ".join(f"{key} = {json.dumps(value)}" for key, value in arguments.items())
    first = f'[[reply]]\ntext = "I shall."\n[[reply.call]]\nname = "{name}"\narguments = {{ {given} }}\n'
    return first + says(then)


class Script(NamedTuple):
    says: str
    script: str
    model: str
    prints: str
    code: int = 0


SCRIPTS = (
    Script(
        "the answer of a json result",
        """answer=$(claude -p "What is 6 times 7?" --output-format json | jq -r '.result')
           echo "The answer: $answer" """,
        says("42"),
        "The answer: 42\n",
    ),
    Script(
        "turns, tokens and a cost in four digits, also where no price is known",
        """claude -p "hi" --output-format json > out.json
           printf 'turns %d, tokens %d, cost %.4f\\n' "$(jq .num_turns out.json)" \\
             "$(jq '.usage.input_tokens + .usage.output_tokens' out.json)" "$(jq '.total_cost_usd // 0' out.json)"
           [ "$(jq -r .is_error out.json)" = false ] && [ "$(jq -r .subtype out.json)" = success ]""",
        says("hello"),
        "turns 1, tokens 15, cost 0.0000\n",
    ),
    Script(
        "a conversation over several calls, by the session's id",
        """session_id=$(claude -p "Start a review" --output-format json | jq -r '.session_id')
           claude -p "Now the tests" --resume "$session_id" --output-format json |
             jq -r --arg id "$session_id" 'if .session_id == $id then .result else "another session" end'""",
        '[[reply]]\nwhen = "Start"\ntext = "Begun."\n[[reply]]\nwhen = "Now"\ntext = "Tests reviewed."\n',
        "Tests reviewed.\n",
    ),
    Script(
        "going on with the last conversation here",
        """claude -p "Remember the word heron" > /dev/null
           claude --continue --print "Which word?" """,
        '[[reply]]\nwhen = "Remember"\ntext = "I do."\n[[reply]]\nwhen = "Which"\ntext = "heron"\n',
        "heron\n",
    ),
    Script(
        "text as it is written, out of partial messages",
        """claude -p "Tell me" --output-format stream-json --verbose --include-partial-messages |
             jq -rj 'select(.type == "stream_event" and .event.delta.type? == "text_delta") | .event.delta.text'
           echo""",
        says("one two three"),
        "one two three\n",
    ),
    Script(
        "which tools were used, out of the stream",
        """claude -p "List it" --output-format stream-json --verbose --allowedTools "Bash(ls:*)" "Read" > log.jsonl
           jq -r 'select(.type == "assistant") | .message.content[] | select(.type == "tool_use")
             | "\\(.name): \\(.input.command)"' log.jsonl
           jq -r 'select(.type == "user") | .message.content[] | select(.type == "tool_result") | .content' log.jsonl |
             grep -c notes.txt
           jq -r 'select(.type == "system" and .subtype == "init") | .permissionMode' log.jsonl
           tail -n 1 log.jsonl | jq -r '.type'""",
        calls("bash", command="ls"),
        "Bash: ls\n1\ndefault\nresult\n",
    ),
    Script(
        "the same question about every file",
        """for file in *.txt; do
             claude -p "Summarise $file in three words" --max-turns 3 > "${file%.txt}.summary" < /dev/null
           done
           head -n 1 notes.summary todo.summary""",
        '[[reply]]\nwhen = "notes.txt"\ntext = "About some notes"\n'
        '[[reply]]\nwhen = "todo.txt"\ntext = "About open work"\n',
        "==> notes.summary <==\nAbout some notes\n\n==> todo.summary <==\nAbout open work\n",
    ),
    Script(
        "several at once",
        """ls *.txt | xargs -P 2 -I{} sh -c 'claude -p "Look at {}" --output-format json > {}.json < /dev/null'
           jq -r .result *.json""",
        says("looked"),
        "looked\nlooked\n",
    ),
    Script(
        "what is piped in is part of the prompt",
        """printf 'ZeroDivisionError: line 7\\n' | claude -p "Explain this error" """,
        '[[reply]]\nwhen = "(?s)Explain this error.*ZeroDivisionError: line 7"\ntext = "You divide by zero."\n',
        "You divide by zero.\n",
    ),
    Script(
        "a file that the prompt names",
        """claude -p "What do @notes.txt and @missing.txt say?" """,
        '[[reply]]\nwhen = "(?s)@notes.txt.*some notes"\ntext = "Some notes."\n',
        "Some notes.\n",
    ),
    Script(
        "a message for a commit",
        """git init -q . && git add notes.txt
           git -c user.name=me -c user.email=me@localhost commit -q \\
             -m "$(git diff --staged | claude -p 'Write a one line commit message')"
           git log -1 --format=%s""",
        '[[reply]]\nwhen = "(?s)commit message.*notes.txt"\ntext = "notes: begin"\n',
        "notes: begin\n",
    ),
    Script(
        "a hook of git that refuses a commit",
        """git init -q .
           cat > .git/hooks/pre-commit <<'HOOK'
#!/bin/sh
verdict=$(git diff --cached | claude -p "Answer PASS or FAIL and why" --disallowedTools Bash Write Edit)
case "$verdict" in PASS*) exit 0 ;; *) echo "review: $verdict" >&2; exit 1 ;; esac
HOOK
           chmod +x .git/hooks/pre-commit; git add todo.txt
           git -c user.name=me -c user.email=me@localhost commit -qm wip 2>&1 || echo "refused" """,
        says("FAIL: a password is in it"),
        "review: FAIL: a password is in it\nrefused\n",
    ),
    Script(
        "an answer in a shape of one's own",
        """schema='{"type":"object","properties":{"ok":{"type":"boolean"},"issues":{"type":"array","items":{"type":"string"}}},
             "required":["ok","issues"]}'
           claude -p "Review it" --output-format json --json-schema "$schema" |
             jq -r '.structured_output | "ok=\\(.ok)", .issues[]'""",
        """[[reply]]\ntimes = "always"\ntext = '{"ok": false, "issues": ["no tests", "no docs"]}'\n""",
        "ok=false\nno tests\nno docs\n",
    ),
    Script(
        "a step of CI that fails when the answer says so",
        """result=$(claude -p "Is it safe to deploy?" --output-format json --permission-mode plan)
           echo "$result" | jq -e '.is_error | not' > /dev/null || exit 2
           if echo "$result" | jq -r .result | grep -q '^BLOCK'; then
             echo "::error::$(echo "$result" | jq -r .result)"; exit 1
           fi""",
        says("BLOCK: migrations are missing"),
        "::error::BLOCK: migrations are missing\n",
        1,
    ),
    Script(
        "a failure is an exit code, and a result that says so",
        """if ! claude -p "hi" --output-format json > out.json 2> err.txt; then
             jq -r '"\\(.subtype) \\(.is_error)", .errors[0]' out.json
           fi""",
        "[[reply]]\ntimes = 'always'\nerror = { status = 402, message = 'no credit left' }\n",
        "error true\nscripted answered 402: no credit left\n",
    ),
    Script(
        "work that nobody watches, with leave to do everything",
        """claude -p "Write the greeting" --dangerously-skip-permissions --output-format json | jq -r .result
           cat greeting.txt""",
        calls("Write", file_path="greeting.txt", content="Good morning\n"),
        "Done.\nGood morning\n",
    ),
    Script(
        "what may not be done is refused, and named",
        """claude -p "Clean up" --settings '{"permissions":{"deny":["Bash(rm:*)"]}}' --dangerously-skip-permissions \\
             --output-format json | jq -r '.permission_denials[] | "\\(.tool_name): \\(.tool_input.command)"'
           ls notes.txt""",
        calls("bash", command="rm notes.txt"),
        "Bash: rm notes.txt\nnotes.txt\n",
    ),
    Script(
        "a hook of the settings that keeps a command from running",
        """cat > judge.sh <<'HOOK'
jq -r '"\\(.hook_event_name) \\(.tool_name) \\(.tool_input.command)"' >> seen.txt
echo "not in production" >&2; exit 2
HOOK
           echo '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
             {"type": "command", "command": "sh $CLAUDE_PROJECT_DIR/judge.sh"}]}]}}' > hooks.json
           claude -p "Clean up" --dangerously-skip-permissions --settings hooks.json --output-format stream-json \\
             --verbose | jq -r 'select(.type == "user") | .message.content[0].content'
           cat seen.txt; ls notes.txt""",
        calls("bash", command="rm notes.txt"),
        "not allowed: not in production\nPreToolUse Bash rm notes.txt\nnotes.txt\n",
    ),
    Script(
        "a hook of the settings that has the tests run before the work is done",
        """cat > again.sh <<'HOOK'
active=$(jq -r .stop_hook_active)
[ "$active" = true ] || { echo "run the tests first" >&2; exit 2; }
HOOK
           claude -p "Mend it" --settings '{"hooks": {
             "Stop": [{"hooks": [{"type": "command", "command": "sh again.sh"}]}],
             "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo It is Monday. | tee day"}]}]}}'
           cat day""",
        '[[reply]]\nwhen = "Mend it"\ntext = "Mended."\n'
        '[[reply]]\nwhen = "run the tests first"\ntext = "Mended, and the tests pass."\n',
        "Mended, and the tests pass.\nIt is Monday.\n",
    ),
    Script(
        "bare, without what the project says",
        """echo "Say it in French." > CLAUDE.md
           claude -p "Greet me"; claude --bare -p "Greet me" """,
        '[[reply]]\nsystem = "in French"\ntext = "Bonjour."\n[[reply]]\ntext = "Hello."\n',
        "Bonjour.\nHello.\n",
    ),
    Script(
        "mode auto, in which commands run unasked and what a rule denies does not",
        """claude -p "Go" --permission-mode auto --disallowedTools "Bash(rm:*)" --output-format json |
             jq -r '.permission_denials[].tool_input.command'
           ls""",
        reply(
            call=[
                {"name": "bash", "arguments": {"command": "touch made.txt"}},
                {"name": "bash", "arguments": {"command": "rm notes.txt"}},
            ]
        )
        + says("Done."),
        "rm notes.txt\nmade.txt\nnotes.txt\ntodo.txt\n",
    ),
    Script(
        "many prompts on one stream",
        """for word in one two; do
             jq -cn --arg text "$word" '{type: "user", message: {role: "user", content: [{type: "text", text: $text}]}}'
           done | claude -p --input-format stream-json --output-format stream-json --verbose |
             jq -r 'select(.type == "result") | .result'""",
        '[[reply]]\nwhen = "one"\ntext = "first"\n[[reply]]\nwhen = "two"\ntext = "second"\n',
        "first\nsecond\n",
    ),
    Script(
        "a reviewer of one's own as a subagent",
        """claude -p "Have it reviewed" --append-system-prompt "Be brief." --agents \\
             '{"reviewer": {"description": "Reviews", "prompt": "You review.", "tools": ["Read"]}}'""",
        '[[reply]]\nwhen = "Have it reviewed"\n[[reply.call]]\nname = "Task"\n'
        'arguments = { description = "review", prompt = "look closely", subagent_type = "reviewer" }\n'
        '[[reply]]\nsystem = "You review"\ntext = "fine"\n[[reply]]\ntext = "The reviewer says it is fine."\n',
        "The reviewer says it is fine.\n",
    ),
    Script(
        "a command of the project's own",
        """mkdir -p .claude/commands && echo 'Review the file $ARGUMENTS and be brief.' > .claude/commands/review.md
           claude -p "/review notes.txt" """,
        '[[reply]]\nwhen = "Review the file notes.txt and be brief"\ntext = "Fine."\n[[reply]]\ntext = "What?"\n',
        "Fine.\n",
    ),
    Script(
        "a timeout around it, as in a cron job",
        """timeout 50 claude -p "Nightly report" --output-format text >> report.log 2>&1 ||
             echo "failed with $?" >> report.log
           cat report.log""",
        says("All is well."),
        "All is well.\n",
    ),
    Script(
        "only the last message of codex, and its progress elsewhere",
        """summary=$(codex exec "Summarise the repository" 2> progress.log)
           echo "summary: $summary" """,
        says("Two text files."),
        "summary: Two text files.\n",
    ),
    Script(
        "events of codex",
        """codex exec --json "Go" > events.jsonl
           jq -r 'select(.type == "item.completed" and .item.type == "agent_message") | .item.text' events.jsonl
           jq -r 'select(.type == "turn.completed") | .usage.input_tokens' events.jsonl
           jq -r '.type' events.jsonl | head -n 1""",
        says("Gone."),
        "Gone.\n12\nthread.started\n",
    ),
    Script(
        "commands that codex ran, and how they ended",
        """codex exec --full-auto --json "Test it" |
             jq -r 'select(.type == "item.completed" and .item.type == "command_execution")
               | "\\(.item.exit_code) \\(.item.aggregated_output)"'""",
        calls("bash", command="echo 3 passed"),
        "0 3 passed\n",
    ),
    Script(
        "an answer of codex in a shape, into a file",
        """cat > schema.json <<'SCHEMA'
{"type": "object", "properties": {"name": {"type": "string"}, "files": {"type": "integer"}},
 "required": ["name", "files"], "additionalProperties": false}
SCHEMA
           codex exec "Extract the details" --output-schema schema.json -o details.json > /dev/null
           jq -r '"\\(.name): \\(.files)"' details.json""",
        """[[reply]]\ntimes = "always"\ntext = '{"name": "notes", "files": 2}'\n""",
        "notes: 2\n",
    ),
    Script(
        "a second step of codex, with what the first one knew",
        """codex exec --skip-git-repo-check "Look for races" > /dev/null
           codex exec --skip-git-repo-check resume --last "Fix what you found" """,
        '[[reply]]\nwhen = "Look"\ntext = "One."\n[[reply]]\nwhen = "Fix"\ntext = "Fixed the one."\n',
        "Fixed the one.\n",
    ),
    Script(
        "a thread of codex by its id, and the prompt on stdin",
        """id=$(codex exec --json "Begin" | jq -r 'select(.type == "thread.started") | .thread_id')
           echo "Go on" | codex exec resume "$id" -""",
        '[[reply]]\nwhen = "Begin"\ntext = "Begun."\n[[reply]]\nwhen = "Go on"\ntext = "Gone on."\n',
        "Gone on.\n",
    ),
    Script(
        "codex may read and not write, and work goes on without the write",
        """codex exec --sandbox read-only --cd . "Clean up"
           ls notes.txt""",
        calls("bash", command="rm notes.txt", then="I could not."),
        "I could not.\nnotes.txt\n",
    ),
    Script(
        "a step of CI with codex that fails when the model does",
        """if codex exec "Review" > out.txt 2> err.txt; then echo passed
           else echo "failed: $(grep -c credit err.txt)"; fi""",
        "[[reply]]\ntimes = 'always'\nerror = { status = 402, message = 'no credit left' }\n",
        "failed: 1\n",
    ),
)


@pytest.mark.parametrize("case", spread(SCRIPTS, quick=0, slow=12), ids=[case.says for case in SCRIPTS])
@pytest.mark.slow
def test_a_published_script_runs_as_it_is(case: Script, tmp_path: Path) -> None:
    need("jq")
    names, work = tmp_path / "bin", tmp_path / "work"
    names.mkdir()
    work.mkdir()
    for name in ("claude", "codex"):
        (names / name).symlink_to(TREADLE)
    (work / "notes.txt").write_text("some notes\n")
    (work / "todo.txt").write_text("open work\n")
    (tmp_path / "model.toml").write_text(case.model)
    env = {
        **os.environ,
        "PATH": f"{names}:{os.environ['PATH']}",
        "TREADLE_MODEL": f"scripted:{tmp_path / 'model.toml'}",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", case.script],
        cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == (case.prints, case.code), done.stderr
