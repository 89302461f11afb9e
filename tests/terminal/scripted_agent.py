"""A program that looks like an agent and does what an agent may do at the worst moment. Run as
`python scripted_agent.py KIND SEED LOG`.

It draws an input box before a dialog of its start covers it; empties the box some time before it shows that it works;
asks in one of three turns; takes an Enter that comes with a paste for part of it; and, when it was stopped, first does
what was due and then reads its keys, so that an Enter meant for the box presses the dialog's button. What it was really
given is in its log, one JSON object for each event.
"""

import json
import os
import random
import select
import sys
import time
import tty

RULE = "\u2500" * 60
IDLE, GAP, WORK, ASK, START = "idle", "gap", "work", "ask", "start"
PASTE = 0.04


class Agent:
    def __init__(self, kind: str, seed: int, log: str) -> None:
        self.kind = kind
        self.chance = random.Random(seed)
        self.log = open(log, "a", buffering=1)
        self.mode, self.due = START, time.monotonic() + self.chance.uniform(0, 0.3)
        self.text = self.turn = ""
        self.transcript: list[str] = []
        self.typed_at = 0.0

    def note(self, **event: str) -> None:
        print(json.dumps({"at": time.monotonic(), **event}), file=self.log)

    # What is shown...

    def draw(self) -> None:
        show = getattr(self, self.kind)
        lines = [*self.transcript[-12:], *show(self.mode in (WORK,), self.mode == ASK)]
        os.write(1, ("\x1b[2J\x1b[H" + "\r\n".join(lines)).encode())

    def claude(self, works: bool, asks: bool) -> list[str]:
        if asks:
            return [
                RULE,
                "Do you want to proceed?",
                "\u276f 1. Yes",
                "  2. No",
                "",
                "Esc to cancel \u00b7 Tab to amend",
            ]
        spinner = ["\u273b Pondering\u2026 (3s \u00b7 thinking)", ""] if works else []
        return [*spinner, RULE, f"\u276f {self.text}", RULE, "  esc to interrupt" if works else "  ? for shortcuts"]

    def gemini(self, works: bool, asks: bool) -> list[str]:
        if asks:
            return ["\u2502 Allow execution of [Shell]?", "\u2502 \u25cf 1. Allow once", "\u2502   2. No"]
        spinner = [" \u2809 Thinking... (esc to cancel, 3s)"] if works else []
        return [*spinner, RULE, f" > {self.text or '  Type your message or @path/to/file'}", "\u2580" * 60, " ~/x"]

    def kimi(self, works: bool, asks: bool) -> list[str]:
        if asks:
            return [
                " Run this command?",
                " \u25b6 1. Approve once",
                "   2. Reject",
                " \u2191/\u2193 select \u00b7 1/2 choose",
            ]
        spinner = [" \U0001f311 \u00b7 Tip: relax", ""] if works else []
        return [*spinner, f"\u256d{RULE}\u256e", f"\u2502 > {self.text:57} \u2502", f"\u2570{RULE}\u256f", " K2"]

    # What happens...

    def pass_time(self) -> None:
        """What is due comes before the keys that have arrived."""
        while time.monotonic() >= self.due and self.mode != IDLE and self.mode != ASK:
            if self.mode == START:
                self.mode = ASK if self.chance.random() < 0.3 else IDLE
            elif self.mode == GAP:
                self.mode = WORK
                self.due = time.monotonic() + self.chance.uniform(0.1, 0.8)
            elif not self.asked and self.chance.random() < 0.33:
                self.mode, self.asked = ASK, True
            else:
                self.over()
            self.draw()

    def over(self) -> None:
        if self.turn:
            self.transcript.append("\u25cf Done." if self.kind != "gemini" else "\u2726 Done.")
            self.note(over=self.turn)
        self.turn, self.mode = "", IDLE

    def key(self, letter: str) -> None:
        if self.mode == ASK:
            if letter in "\r1yY\x1b":
                self.note(**{"approved" if letter == "\r" else "answered": repr(letter)})
                self.mode, self.due = WORK if self.turn else START, time.monotonic() + self.chance.uniform(0, 0.3)
                if not self.turn:
                    self.over()
            return
        if letter == "\r" and time.monotonic() - self.typed_at > PASTE:
            if self.text and self.mode == IDLE:
                mark = {"claude": "\u276f", "gemini": " >", "kimi": "\u2728"}[self.kind]
                self.note(prompt=self.text)
                self.transcript += ["", f"{mark} {self.text}", ""]
                self.turn, self.text, self.asked = self.text, "", False
                self.mode, self.due = GAP, time.monotonic() + self.chance.uniform(0, 0.5)
        elif letter == "\x15":
            self.text = ""
        elif letter == "\x7f":
            self.text = self.text[:-1]
        elif letter >= " ":
            self.text += letter
            self.typed_at = time.monotonic()

    def run(self) -> None:
        tty.setraw(0)
        os.write(1, b"\x1b[?2004h")
        self.draw()
        while True:
            wait = max(0.0, self.due - time.monotonic()) if self.mode in (START, GAP, WORK) else None
            ready = select.select([0], [], [], wait)[0]
            self.pass_time()
            if ready:
                data = os.read(0, 4096).decode(errors="replace")
                for mark in ("\x1b[200~", "\x1b[201~"):
                    data = data.replace(mark, "")
                for letter in data:
                    self.key(letter)
                self.draw()


if __name__ == "__main__":
    Agent(sys.argv[1], int(sys.argv[2]), sys.argv[3]).run()
