"""Draws the input boxes of agents at any width. As a program, `python -m tests.terminal.boxed_agent AGENT LOG LOST`, it
is such an agent: what it was given, as a prompt or as a shell command, is in its log; the first LOST Enters are lost.
"""

import json
import os
import re
import sys
import textwrap
import tty
from collections.abc import Callable

from treadle.terminal.grid import cell_width

TITLES = {"codex": "shop", "gemini": "◇  Ready (shop)"}
TRANSCRIPTS = {
    "claude": ("❯ ", "● "),
    "codex": ("› ", "• "),
    "copilot": (" ❯ ", " ● "),
    "gemini": (" > ", "✦ "),
    "kimi": (" ✨ ", " ● "),
    "opencode": ("  ┃  ", "     "),
    "qwen": ("  > ", "  ◆ "),
}
"""What a prompt and an answer begin with. Their further lines are indented as far; opencode repeats its edge."""


def wrapped(text: str, cols: int) -> list[str]:
    """As a box breaks it: at blanks if there are any, wide characters counted."""
    found = []
    for line in text.split("\n"):
        if line.isascii():
            found += textwrap.wrap(line, cols, drop_whitespace=True) or [""]
            continue
        row, used = "", 0
        for letter in line:
            if used + cell_width(letter) > cols:
                found.append(row)
                row, used = "", 0
            row, used = row + letter, used + cell_width(letter)
        found.append(row)
    return found


def between(top: str, first: str, more: str, bottom: str, end: str = "") -> Callable[[str, int, str], list[str]]:
    def draw(text: str, cols: int, mark: str) -> list[str]:
        rows = wrapped(text, cols - len(first) - len(end) - 1)
        marked = [(first.replace("M", mark) if not number else more) + row for number, row in enumerate(rows)]
        room = cols - len(end)
        marked = [f"{row}{' ' * (room - sum(map(cell_width, row)))}{end}".rstrip() for row in marked]
        return [*filter(None, [top * cols]), *marked, *filter(None, [bottom * cols])]

    return draw


def opencode(text: str, cols: int, mark: str) -> list[str]:
    rows = [f"  ┃  {row}" for row in wrapped(text, cols - 6)]
    note = "Shell" if mark == "!" else "Build · Big Model"
    return ["  ┃", *rows, "  ┃", f"  ┃  {note}", "  ╹" + "▀" * (cols - 4)]


RULED = between("─", "M ", "  ", "─")
BOXES: dict[str, tuple[str, Callable[[str, int, str], list[str]], list[str], list[str]]] = {
    "claude": ("❯", RULED, ["● Done.", ""], ["  ? for shortcuts"]),
    "codex": (
        "›",
        between("", "M ", "  ", ""),
        ["• Done.", ""],
        ["", "  model default · /srv/work", "  ? for shortcuts"],
    ),
    "gemini": (">", between("▄", " M ", "   ", "▀"), ["─" * 30, " Shift+Tab to accept edits"], [" ~/x   no sandbox"]),
    "gemini with few colours": (
        ">",
        between("", " M ", "   ", ""),
        ["─" * 30, " Shift+Tab to accept edits", ""],
        ["", " workspace (/directory)   sandbox", " ~/x   no sandbox"],
    ),
    "copilot": ("❯", RULED, ["● Done.", ""], [" Interactive · Manual Approval"]),
    "qwen": (">", RULED, ["● Done.", ""], ["  ? for shortcuts"]),
    "kimi": (">", between("─", "│ M ", "│   ", "─", "│"), ["● Done.", ""], [" K2"]),
    "opencode": ("", opencode, ["     Done.", ""], ["  ~/x"]),
    "pi": ("", between("─", "", "", "─"), ["Done.", ""], ["~/x"]),
}


def shown(agent: str, text: str, cols: int, mark: str = "") -> list[str]:
    own, draw, above, below = BOXES[agent]
    box = draw(text, cols, mark or own)
    if agent == "kimi":
        box[0], box[-1] = f"╭{box[0][2:]}╮", f"╰{box[-1][2:]}╯"
    return [*above, *box, *below]


def transcript(agent: str, prompt: str, answer: str, cols: int) -> list[str]:
    lines = []
    for mark, text in zip(TRANSCRIPTS[agent], (prompt, answer), strict=True):
        more = mark if agent == "opencode" else " " * sum(map(cell_width, mark))
        first, *rest = wrapped(text, cols - len(more) - 1)
        lines += [mark + first, *(more + row for row in rest), ""]
    return lines


def main(agent: str, log: str, lost: int) -> None:
    tty.setraw(0)
    text, mode, said = "", "", []
    os.write(1, f"\x1b]0;{TITLES.get(agent, '')}\x07\x1b[?2004h".encode())
    while True:
        lines = [*said[-3:], *shown(agent, text, os.get_terminal_size(0).columns, mode)]
        os.write(1, ("\x1b[2J\x1b[H" + "\r\n".join(lines)).encode())
        data = os.read(0, 65536).decode()
        while "\x1b[200~" in data and "\x1b[201~" not in data:
            data += os.read(0, 65536).decode()
        for part in re.findall(r"\x1b\[200~.*?\x1b\[201~|[\s\S]", data, re.DOTALL):
            if part.startswith("\x1b[200~"):
                text += part[6:-6].replace("\r", "\n")
            elif part == "\r" and lost > 0:
                lost -= 1
            elif part == "\r" and text:
                with open(log, "a") as file:
                    print(json.dumps({mode or "prompt": text}), file=file)
                said = [TRANSCRIPTS[agent][0] + text.split("\n")[0][:30], TRANSCRIPTS[agent][1] + "Done.", ""]
                text = mode = ""
            elif part == "\x15":
                text = ""
            elif part == "\x7f":
                text, mode = text[:-1], mode if text else ""
            elif part == "!" and not text and not mode:
                mode = part
            elif part >= " ":
                text += part


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
