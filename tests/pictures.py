"""Draw the pictures of the docs: a real chat with a scripted model, on a real pty, seen through our own screen.

    python -m tests.pictures [DIRECTORY]

`make pictures` writes them to docs/pictures. What they show is what the program shows: nothing is touched up.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.cli.chat.terminal import ChatTerminal
from tests.installed import TREADLE
from tests.svg import as_svg

COLS, ROWS = 96, 26
SCRATCH = Path("/tmp/treadle-pictures")
"""Always the same: it is seen in the pictures."""
FILES = {
    "prices.py": 'def total(prices):\n    """The sum of all prices."""\n    return sum(prices) - 1\n',
    "check.py": "from prices import total\n\nassert total([2, 3]) == 5, total([2, 3])\nprint('all is well')\n",
}
SCRIPT = r'''
[[reply]]
when = "(?i)check fails"
thinking = "The check calls total. Let me look at it first."
text = "I look at the function first."
[[reply.call]]
name = "read_file"
arguments = { file_path = "prices.py" }

[[reply]]
when = "def total"
text = """
The function takes **one off** every sum:

1. `return sum(prices) - 1` has a stray `- 1`
2. nothing else is wrong

I take it out.
"""
[[reply.call]]
name = "edit_file"
arguments = { file_path = "prices.py", old_string = "sum(prices) - 1", new_string = "sum(prices)" }

[[reply]]
when = "(?i)replaced|edited|prices.py"
text = "Now I run the check."
[[reply.call]]
name = "bash"
arguments = { command = "python3 check.py > result.txt && cat result.txt" }

[[reply]]
when = "all is well"
text = "The check passes now: `total` no longer takes one off."

[[reply]]
when = "(?i)slowly"
text = "I count, and you can go on typing."
[[reply.call]]
name = "bash"
arguments = { command = "for n in 1 2 3 4; do echo step $n; done; sleep 600" }

[[reply]]
when = ".*"
text = "Good."
times = "always"
'''
Scene = Callable[[ChatTerminal], None]


def question(terminal: ChatTerminal) -> None:
    """An edit, seen before it is allowed."""
    terminal.say("The check fails. Why?")
    terminal.asked()


def command(terminal: ChatTerminal) -> None:
    """A command: what it would touch, and how it is confined."""
    terminal.say("The check fails. Why?")
    terminal.asked()
    terminal.keys("y")
    terminal.until("(?s)in .*confined by.*waiting for you 0:0[1-9]")


def typing(terminal: ChatTerminal) -> None:
    """A running command with the end of its output, and what waits for afterwards."""
    terminal.say("Count slowly.")
    terminal.asked()
    terminal.keys("y")
    terminal.until("(?s)step 4.*waiting for bash")
    terminal.keys("then write a test\t")
    terminal.until("next: then write a test")
    terminal.keys("/mo")
    terminal.until("/model")


SCENES: dict[str, tuple[Scene, list[str], dict[str, int]]] = {
    "chat-edit": (question, [], {}),
    "chat-command": (command, ["--sandbox"], {"rows": 34}),
    "chat-running": (typing, [], {"rows": 22}),
}


def main() -> None:
    where = Path(sys.argv[1] if sys.argv[1:] else Path(__file__).parent.parent / "docs" / "pictures")
    where.mkdir(parents=True, exist_ok=True)
    for name, (scene, options, size) in SCENES.items():
        shutil.rmtree(SCRATCH, ignore_errors=True)
        with start(SCRATCH, options, **size) as terminal:
            scene(terminal)
            (where / f"{name}.svg").write_text(as_svg(terminal.screen, (scene.__doc__ or name).strip(".")))
        print(where / name)
    shutil.rmtree(SCRATCH)


def start(scratch: Path, options: list[str], rows: int = ROWS) -> ChatTerminal:
    work = scratch / "shop"
    work.mkdir(parents=True)
    for name, text in FILES.items():
        (work / name).write_text(text)
    subprocess.run(["git", "init", "-q", "-b", "main", work], check=True)
    (scratch / "script.toml").write_text(SCRIPT)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "TREADLE_HOME": str(scratch / "state"),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TREADLE_MODEL": f"scripted:{scratch / 'script.toml'}",
    }
    terminal = ChatTerminal([TREADLE, *options], work, env, COLS, rows)
    terminal.ready()
    return terminal


if __name__ == "__main__":
    main()
