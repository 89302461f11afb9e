"""The examples of the library, run as a person would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.scripts import calls, reply, says

EXAMPLES = Path(__file__).parents[2] / "examples" / "library"


def run(name: str, cwd: Path, replies: str, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    (cwd / "script.toml").write_text(replies)
    env = {**os.environ, "TREADLE_MODEL": f"scripted:{cwd / 'script.toml'}"}
    command = [sys.executable, str(EXAMPLES / name), *words]
    return subprocess.run(command, cwd=cwd, env=env, input=typed, capture_output=True, text=True, timeout=120)


def test_every_example_is_run_here() -> None:
    there = {path.name for path in EXAMPLES.glob("*.py")}
    run_here = set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text()))
    assert there == run_here and len(there) == 10


def test_one_turn_event_by_event(tmp_path: Path) -> None:
    done = run("ask.py", tmp_path, '[[reply]]\ntext = "It weaves."\n', "What?")
    assert done.stdout == "It weaves.\n(completed)\n", done.stderr


def test_tools_hooks_and_answers_of_a_program(tmp_path: Path) -> None:
    replies = reply(
        call=[
            {"name": "in_stock", "arguments": {"article": "loom"}},
            {"name": "bash", "arguments": {"command": "cat stock.txt"}},
        ]
    ) + says("Two looms.", when="no shell here")
    done = run("tools_and_hooks.py", tmp_path, replies)
    # What a hook blocks, no one is asked about.
    assert done.stdout.splitlines() == ["in_stock: 2 of loom", "Two looms.", "cost: unknown"], done.stderr


def test_without_async_what_changed_is_told(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a mispeling\n")
    replies = reply(
        call=[
            {"name": "read_file", "arguments": {"file_path": "README.md"}},
            {
                "name": "edit_file",
                "arguments": {"file_path": "README.md", "old_string": "mispeling", "new_string": "misspelling"},
            },
        ]
    ) + says("Done.")
    done = run("script.py", tmp_path, replies)
    assert done.returncode == 0 and done.stdout == f"Done.\nchanged: {tmp_path / 'README.md'}\n", done.stderr
    assert (tmp_path / "README.md").read_text() == "a misspelling\n"


def test_a_typed_answer_is_asked_for_again_until_it_fits(tmp_path: Path) -> None:
    replies = (
        says("It is good.", when="Review the last commit")
        + says('{"verdict": "good"}', when="does not fit: JSON is malformed")
        + says('{"verdict": "good", "problems": ["a typo"]}', when="missing required field `problems`")
    )
    done = run("typed_answer.py", tmp_path, replies)
    assert done.stdout == "good\n- a typo\n", done.stderr


def test_a_conversation_goes_on_in_another_session(tmp_path: Path) -> None:
    replies = (
        says("It weaves.", when="What does")
        + says("At main.py.", when="where would")
        + says("The first.", when="Thanks")
    )
    done = run("conversation.py", tmp_path, replies)
    assert done.stdout == "It weaves.\nAt main.py.\nThe first.\n", done.stderr


def test_a_person_allows_and_denies(tmp_path: Path) -> None:
    replies = calls("bash", {"command": "touch made"}, when="make it") + says("Well.", when=".*", times="always")
    done = run("approve.py", tmp_path, replies, "make it", typed="n\n")
    assert "bash: touch made\nallow? [y/N] Well." in done.stdout and not (tmp_path / "made").exists()
    done = run("approve.py", tmp_path, replies, "make it", typed="y\n")
    assert done.returncode == 0 and (tmp_path / "made").exists(), done.stderr


def test_a_limit_is_an_error_with_its_code(tmp_path: Path) -> None:
    replies = calls("glob", {"pattern": "*"}, when=".*", times="always")
    done = run("limits.py", tmp_path, replies, "look")
    assert done.returncode == 1 and re.match("max_iterations|budget_exceeded|loop_detected", done.stderr), done.stderr


def test_several_at_once(tmp_path: Path) -> None:
    replies = says("A list.", when="Explain a.py", times="always") + says("A set.", when="Explain b.py", times="always")
    done = run("parallel.py", tmp_path, replies, "a.py", "b.py")
    assert done.stdout == "a.py: A list.\nb.py: A set.\n", done.stderr


def test_the_same_program_with_another_agent(tmp_path: Path) -> None:
    worker = str(Path(sys.executable).with_name("treadle-worker"))
    for agent in ("native", f"worker:{worker}"):
        done = run("any_agent.py", tmp_path, says("Hello.", times="always"), agent, "Hi")
        assert done.stdout.startswith("Hello.\n") and "tokens in" in done.stdout, done.stderr


def test_what_an_agent_does_is_seen_as_it_happens(tmp_path: Path) -> None:
    replies = reply(
        call=[
            {"name": "write_file", "arguments": {"file_path": "a.txt", "content": "a"}},
            {"name": "bash", "arguments": {"command": "rm -r /srv/data"}},
        ]
    ) + says("Done.")
    done = run("watch.py", tmp_path, replies, "do it")
    assert "-> write_file" in done.stdout and f"++ {tmp_path / 'a.txt'}" in done.stdout, done.stderr
    assert "-- bash" in done.stdout and done.stdout.endswith("Done.\n")
