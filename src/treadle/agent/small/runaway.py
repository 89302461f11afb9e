"""Detects an endless reply: one line after the other of the same form. Pure."""

import re

LINES = 12
"""This many lines in a row that differ only in their texts and numbers mean that the model cannot stop."""
_BREAK = re.compile(r"(?<!\\)\\n")
"""A line break as it is written inside a JSON text."""
_VARYING = re.compile(r"""'[^']*'|\\"[^"]*\\"|\d+""")
_LETTER = re.compile(r"[A-Za-z]")


def endless(text: str) -> str:
    """The first of the lines that repeat one form at the end of the text so far; empty when none do.

    Lines of plain data (`"red": 1,`) do not count: a long table is not endless.
    """
    lines = _BREAK.split(text)[:-1][-LINES:]
    forms = {_VARYING.sub("_", line.strip()) for line in lines}
    if len(lines) < LINES or len(forms) != 1 or not _LETTER.search(forms.pop()):
        return ""
    return lines[0].strip()
