"""Several people answer the dialogs of one program at once, while it and its supervisor are stopped now and then and
the machine is busy. What must hold:

- each dialog gets the key of one person, who has read what that dialog asks; no command runs unread;
- whoever is told that the key was typed is the one whose key the program got; all others are told why not.

Run as a program: `python -m tests.terminal.racing_answers SEED PROGRAMS DIALOGS BUSY DIRECTORY`, with so many busy
processes beside it. Prints the counts and each violation as JSON.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.installed import treadle
from tests.terminal.support import Stage, connected, until
from treadle.terminal.places import Place
from treadle.wire.terminal import frames as wire

ASKING = """
import os, random, sys, time, tty
chance, count, alike = random.Random(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "alike"
tty.setraw(0)
for number in range(count):
    command = "again" if alike else f"step {number};"
    lines = ["• Let me run that.", "  Would you like to run the following command?", "", "  $ " + command, ""]
    lines += ["› 1. Yes, proceed (y)", "  2. No (esc)", "", "  Press enter to confirm or esc to cancel"]
    os.write(1, ("\\x1b[2J\\x1b[H" + "\\r\\n".join(lines)).encode())
    key = os.read(0, 1)
    os.write(9, f"{number} {key.decode()}\\n".encode())
    if chance.random() < 0.5:
        os.write(1, "\\x1b[2J\\x1b[H• Working (1s • esc to interrupt)".encode())
        time.sleep(chance.choice([0, 0.02, 0.2]))
os.write(1, b"\\x1b[2J\\x1b[HIt is over.")
os.read(0, 1)
"""
PEOPLE = 6
ANSWERED = 300.0
"""Seconds after which dialogs that are left count as forgotten."""
REASONS = {"changed", "answered", "no question"}


def start_asking(stage: Stage, directory: Path, count: int, alike: str = "different", seed: int = 0) -> Place:
    """A program that looks like Codex and asks one thing after the other; what it is told is in the file `told`."""
    directory.mkdir(parents=True, exist_ok=True)
    log, program, code = directory / "told", directory / "codex", directory / "asking.py"
    log.touch()
    code.write_text(ASKING)
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -ISu {code} {seed} {count} {alike} 9>>{log}\n")
    program.chmod(0o700)
    place = stage.start(str(program), cols=80, rows=24)
    until(lambda: dialog(place))
    return place


def dialog(place: Place) -> str:
    with connected(place) as client:
        found = client.detail()["state"]
    return "" if found["settling"] or not found["waiting_for"] else str(found["dialog"])


class Race:
    """The people at one program. Each answers each dialog that they have read once."""

    def __init__(self, place: Place, log: Path, count: int, seed: int) -> None:
        self.place, self.log, self.count, self.seed = place, log, count, seed
        self.typed: list[str] = []  # what was asked where a key was typed
        self.codes: Counter[str] = Counter()
        self.stops = 0
        self.broken: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        parts = [lambda number=number: self.answer(number) for number in range(PEOPLE)]
        threads = [threading.Thread(target=self._act, args=(part,)) for part in (*parts, self.stop_and_go)]
        for thread in threads:
            thread.start()
        try:
            until(lambda: self.over.is_set() or len(self.told()) >= self.count, "all dialogs to be answered", ANSWERED)
        finally:
            self.over.set()
            for thread in threads:
                thread.join()

    def _act(self, part: Any) -> None:
        try:
            part()
        except Exception as error:
            self.broken.append(repr(error))
            self.over.set()

    def told(self) -> list[str]:
        return self.log.read_text().splitlines()

    def answer(self, number: int) -> None:
        chance, read = random.Random(f"{self.seed} {number}"), ""
        with connected(self.place) as client:
            while not self.over.is_set():
                state = client.detail()["state"]
                self.over.wait(chance.choice([0, 0, 0.01, 0.1]))
                if not state["dialog"] or state["dialog"] == read:
                    continue
                read = state["dialog"]
                self._count(state, self._by_command(read) if chance.random() < 0.1 else self._over_wire(client, read))

    def _over_wire(self, client: Any, to: str) -> str:
        while not self.over.is_set():
            told = client.type_in(b"y", wire.ANSWERS, to)
            if told["typed"] or told["why"] != "settling":
                return "typed" if told["typed"] else str(told["why"])
        return "no question"

    def _by_command(self, to: str) -> str:
        words = ("--socket-dir", self.place.directory, self.place.id, "--answer", "y", "--to", to)
        done = treadle("send", *words, start_new_session=True)
        if "try again" in done.stderr and not self.over.is_set():  # the program is stopped, or the machine is busy
            return self._by_command(to)
        said = {"something else now": "changed", "another answer": "answered", "no open question": "no question"}
        return "typed" if not done.returncode else next((why for text, why in said.items() if text in done.stderr), "")

    def _count(self, state: dict[str, Any], came: str) -> None:
        self.codes[came] += 1
        if came == "typed":
            self.typed.append(state["message"])
        elif came not in REASONS:
            self.broken.append(f"an answer to {state['dialog']} was refused with {came!r}")

    def stop_and_go(self) -> None:
        """Stop the program or its supervisor now and then."""
        chance = random.Random(self.seed)
        while not self.over.wait(chance.uniform(0, 0.3)):
            supervisor, child = self.place.pids()
            stopped = -child if chance.random() < 0.7 else supervisor
            os.kill(stopped, signal.SIGSTOP)
            self.stops += 1
            self.over.wait(chance.uniform(0, 0.4))
            os.kill(stopped, signal.SIGCONT)

    def violations(self) -> list[str]:
        found = [f"{self.place.id}: {each}" for each in self.broken]
        if self.told() != [f"{number} y" for number in range(self.count)]:
            found.append(f"{self.place.id}: it was told {self.told()}")
        alike = [message for message in self.typed if "$ again" in message]
        steps = [f"$ step {number};" for number in range(self.count)]
        if len(self.typed) != self.count or not alike and any(sum(s in m for m in self.typed) != 1 for s in steps):
            found.append(f"{self.place.id}: keys were typed into {self.typed}")
        return found


def main(seed: int, programs: int, dialogs: int, busy: int, directory: Path) -> None:
    (directory / "t").mkdir(parents=True, mode=0o700)
    stage, races = Stage(directory / "t"), []
    spinning = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(busy)]
    try:
        for number in range(programs):
            own = 100 * seed + number
            where = directory / str(number)
            place = start_asking(stage, where, dialogs, "alike" if number % 4 == 3 else "different", own)
            races.append(Race(place, where / "told", dialogs, own))
        with ThreadPoolExecutor(programs) as pool:
            list(pool.map(Race.run, races))
    finally:
        for process in spinning:
            process.kill()
            process.wait()
        stage.close()
    codes = sum((race.codes for race in races), Counter[str]())
    met = {"dialogs": programs * dialogs, "stops": sum(race.stops for race in races)}
    wrong = [line for race in races for line in race.violations()]
    print(json.dumps({"sends": sum(codes.values()), **met, "codes": codes, "violations": wrong}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]), Path(sys.argv[5]))
