"""Sends at random moments to agents that are stopped (SIGSTOP) for random times, and what must hold:

- no Enter of ours ever presses the button of a dialog;
- what an agent is given as a prompt is exactly one text that was sent, never two joined;
- every exit code is true: 0 means that the agent was given the text (with --wait: that its turn was over by then), 3
  and 4 mean that it was not.

Run as a program: `python -m tests.terminal.random_sends SEED SENDS AGENTS SECONDS DIRECTORY`, with the longest stop in
seconds. Prints the counts and each violation as JSON.
"""

import json
import math
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.installed import treadle
from treadle.terminal.client import Client
from treadle.terminal.places import Place
from treadle.wire.terminal import frames as wire

KINDS = ("claude", "gemini", "kimi")
HOW = (
    *(["--enter"], ["--enter"], ["--enter"], ["--wait"], ["--wait"], ["--wait"]),
    *(["--when-idle"], ["--when-idle", "--wait"], ["--enter", "--replace"]),
)
PAUSES: tuple[float, ...] = (0, 0, 0.05, 0.2, 0.8)
PATIENCE = 600.0
"""How long a command may take on a machine where everything waits for a processor."""


class Driven:
    """One agent, the one who sends to it, the one who stops it, and the person who looks after it."""

    ANSWER = b"1"
    PAUSES = PAUSES
    SIZE = (100, 40)

    def __init__(self, number: int, seed: int, longest: float, directory: Path) -> None:
        self.seed = seed * 1000 + number
        self.chance = random.Random(self.seed)
        self.kind = KINDS[number % len(KINDS)]
        self.name = f"a{number}"
        self.longest = longest
        self.directory = directory
        self.log = directory / f"{self.name}.events"
        self.log.touch()
        self.place = Place(str(directory / "t"), self.name)
        self.sent: dict[str, tuple[int, list[str], float, str]] = {}  # token: code, how, when it returned, stderr
        self.queued: set[str] = set()  # what was still queued at the end
        self.slowest = 0.0  # how long the slowest command took
        self.stops = self.dialogs = 0  # how often it was stopped, and seen to begin to ask
        self.broken: list[str] = []  # what ended one of those early
        self.done = threading.Event()
        (directory / self.name).mkdir()
        size = ("--cols", str(self.SIZE[0]), "--rows", str(self.SIZE[1]))
        self.run("run", "--detach", "--id", self.name, *size, *self.program(seed + number), check=True)

    def program(self, seed: int) -> list[str]:
        """The rest of the command line that starts it."""
        program = self.directory / self.name / self.kind
        script = Path(__file__).with_name("scripted_agent.py")
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -ISu {script} {self.kind} {seed} {self.log}\n")
        program.chmod(0o700)
        return ["--", str(program)]

    def text(self, number: int) -> str:
        return f"{self.name} do thing {number:04}."

    def run(self, *arguments: str, check: bool = False) -> tuple[int, str]:
        name, *rest = arguments
        begun = time.monotonic()
        where = ("--socket-dir", str(self.directory / "t"))
        done = treadle(name, *where, *rest, timeout=PATIENCE, start_new_session=True)  # as from a shell of its own
        self.slowest = max(self.slowest, time.monotonic() - begun)
        assert not check or done.returncode == 0, done.stderr
        return done.returncode, done.stderr

    def send(self, sends: int) -> None:
        """Send texts at random moments."""
        for number in range(sends):
            time.sleep(self.chance.choice(self.PAUSES))
            token, how = self.text(number), self.chance.choice(HOW)
            code, said = self.run("send", self.name, token, *how, "--timeout", f"{3 + 3 * self.longest}")
            self.sent[token] = (code, how, time.monotonic(), said)
        self.done.set()

    def act(self, part: Callable[[], None]) -> None:
        """Play one of the parts. When it breaks, the others end too, and the block counts as wrong."""
        try:
            part()
        except Exception as error:
            self.broken.append(f"{self.name}: {error!r}")
            self.done.set()

    def stop_and_go(self) -> None:
        """Stop it now and then, for a random time."""
        chance, pid = random.Random(f"stops {self.seed}"), self.place.pids()[1]
        while not self.done.wait(chance.uniform(0, 3)):
            os.killpg(pid, signal.SIGSTOP)
            self.stops += 1
            self.done.wait(chance.uniform(0, self.longest))
            os.killpg(pid, signal.SIGCONT)

    def look_after(self) -> None:
        """What a person does who looks at it now and then: answers what it asks, and empties its input box. At the
        end, until nothing is queued."""
        chance, deadline, asked = random.Random(f"person {self.seed}"), math.inf, False
        while True:
            with Client(self.place.sock, timeout=60) as client:  # a command of its own would come too late
                detail = client.detail()
                before, asked = asked, bool(detail["state"]["waiting_for"])
                self.dialogs += asked and not before
                if asked and chance.random() < 0.5:
                    client.type_in(self.ANSWER, wire.ANSWERS, detail["state"]["dialog"])
                elif self._in_the_way(detail) and chance.random() < 0.3:
                    client.type_in(b"\x15")
            if self.done.is_set():
                deadline = min(deadline, time.monotonic() + 60)
                if time.monotonic() > deadline or not detail["prompts"]:
                    self.queued = {prompt["text"] for prompt in detail["prompts"]}
                    break
            time.sleep(chance.uniform(0, 0.3))
        self.run("kill", self.name, "--grace", "0")

    def _in_the_way(self, detail: dict[str, Any]) -> bool:
        """Whether what stands in the input box keeps texts out, and none is just being typed."""
        if detail["prompts"]:
            return detail["prompts"][0]["waits_for"] in ("text", "unknown")
        refused = any("a text in the input box" in said for *_, said in list(self.sent.values())[-1:])
        return refused or bool(detail["state"]["name"] == "unknown")

    def truth(self) -> tuple[list[str], dict[str, float], dict[str, float]]:
        """What went wrong, what it was given when, and when each turn was over."""
        events = [json.loads(line) for line in self.log.read_text().splitlines()]
        given = {event["prompt"]: event["at"] for event in events if "prompt" in event}
        over = {event["over"]: event["at"] for event in events if "over" in event}
        return [f"{self.name}: Enter approved" for event in events if "approved" in event], given, over

    def violations(self, counts: Counter[str]) -> list[str]:
        found, given, over = self.truth()
        found += self.broken
        found += [f"{self.name}: joined {text!r}" for text in given if text not in self.sent]
        for token, (code, how, when, said) in self.sent.items():
            counts[f"{' '.join(how)}: {code}"] += 1
            taken = given.get(token)
            wrong = code == 0 and taken is None and token not in self.queued
            wrong = wrong or (code in (3, 4) and taken is not None and "--wait" not in how)
            wrong = wrong or (code == 4 and taken is not None)
            wrong = wrong or (code == 0 and "--wait" in how and over.get(token, when + 1) > when)
            if wrong:
                found.append(f"{self.name}: {token} {' '.join(how)} gave {code}, taken {taken}: {said.strip()}")
        if found:  # the directory may be gone when someone wonders about it
            found[-1] += f" [its log: {Path(self.place.log).read_text()}]"
        return found


def play(driven: Sequence[Driven], sends: int) -> dict[str, Any]:
    """All of them at once. Returns how many sends, dialogs and stops there were, which codes the sends gave, and each
    violation."""
    threads = []
    for one in driven:
        for part in (partial(one.send, sends // len(driven)), one.stop_and_go, one.look_after):
            threads.append(threading.Thread(target=one.act, args=(part,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts: Counter[str] = Counter()
    found = [line for one in driven for line in one.violations(counts)]
    met = {"dialogs": sum(one.dialogs for one in driven), "stops": sum(one.stops for one in driven)}
    met["slowest"] = round(max(one.slowest for one in driven))
    return {"sends": sum(counts.values()), **met, "codes": counts, "violations": found}


def main(seed: int, sends: int, agents: int, longest: float, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(8) as pool:
        driven = list(pool.map(lambda number: Driven(number, seed, longest, directory), range(agents)))
    print(json.dumps(play(driven, sends)))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), Path(sys.argv[5]))
