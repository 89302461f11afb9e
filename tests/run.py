"""Runs the suite: `make test`, `make test-slow`, `make test SLOW=1`, `make test ROOM=terminal,cli/chat`.

The suite is cut into parts of one room each, of about the same length. A part is a list of files that a pytest of its
own runs, so each file is loaded once in the whole run. The static checks are parts, too. The longest begin first, as
many at a time as JOBS says.

Real processes on a busy machine: a test that failed is run once more at the end, as the train does with a flaky check,
five of them at most, and each is reported with how it failed. It is a fault to be found all the same. Only then does
pytest take assertions apart; before, it shows the values of the names: to rewrite all tests would take half a minute.
"""

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).parent.parent
TESTS = TOP / "tests"
NOT_HERE = {"soak", "live"}
"""Folders with a command of their own, because they take hours or need the programs of others."""
LENGTH = 80.0
"""Seconds that a part takes, about, on two busy cores."""
PACES = {
    **dict.fromkeys(("doors", "policy", "receipts", "sessions", "settings", "wire"), 6),
    **dict.fromkeys(("fleet", "host", "serve", "tests"), 27),
    **dict.fromkeys(("cli", "conform", "drivers", "landing", "library", "safety", "testing"), 45),
    **dict.fromkeys(("e2e", "evals"), 70),
    "verification": 110,
}
"""Seconds for a thousand lines of tests there, about; 15 in other rooms. Only how the suite is cut depends on them."""
SLOW = {"e2e": 40, "safety": 30, "terminal": 25, "goals": 17, "cli": 12}
"""Seconds for a slow test there, about; 8 in other rooms."""
LIMIT = 1800.0
"""Seconds after which a part is ended: ten times what one takes on a busy machine."""
GRACE = 20.0
"""Seconds that a part has to clean up when it is asked to end."""
RERUNS = 5
MARKS = {
    "quick": ["-m", "not slow and not long"],
    "slow": ["-m", "slow and not long"],
    "long": ["-m", "long"],
    "all": [],
}
AGAIN = "again"
OUTCOMES = ("passed", "failed", "skipped")


@dataclass(frozen=True)
class Part:
    name: str
    length: float
    """How long it takes, compared to others."""
    tier: str = "all"
    """Which of the tests in its files run."""
    files: tuple[str, ...] = ()
    """Test files, or single tests."""
    command: tuple[str, ...] = ()
    """A static check instead of tests."""


@dataclass
class Test:
    outcome: str = "begun"
    """Or one of OUTCOMES."""
    seconds: float = 0.0
    text: str = ""


@dataclass
class Running:
    """A part whose process has begun. `place` is its own: what it prints, what it reports, its temporary files."""

    part: Part
    process: subprocess.Popen[bytes]
    place: Path
    began: float
    tests: dict[str, Test] = field(default_factory=dict)
    cpu: float = 0.0
    crash: str = ""
    read: int = 0
    seconds: float = 0.0

    @property
    def output(self) -> str:
        return (self.place / "output").read_text(errors="replace").strip()

    @property
    def failed(self) -> bool:
        return bool(self.crash) or any(test.outcome == "failed" for test in self.tests.values())

    def listen(self) -> None:
        """Take in what was reported since the last time, and show each failure at once."""
        try:
            with open(self.place / "report", "rb") as file:
                file.seek(self.read)
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return
        for line in lines:
            if line.endswith(b"\n"):  # the rest of it is still to come
                self.read += len(line)
                self._take(json.loads(line))

    def _take(self, facts: dict[str, str | float]) -> None:
        if "cpu" in facts:
            self.cpu = float(facts["cpu"])
            return
        test = self.tests.setdefault(str(facts["test"]), Test())
        test.seconds += float(facts["seconds"])
        if facts["outcome"] != "passed" and test.outcome != "failed":
            test.outcome, test.text = str(facts["outcome"]), str(facts["text"])
            if test.outcome == "failed":
                say(f"FAILED {facts['test']} ({self.part.name})\n{test.text}\n")
        if facts["ended"] and test.outcome == "begun":
            test.outcome = "passed"

    def finish(self, code: int) -> None:
        """Its process has ended."""
        self.listen()
        self.seconds = time.monotonic() - self.began
        if self.part.command:
            self.tests[self.part.name] = Test("failed" if code else "passed", self.seconds, self.output if code else "")
            if code:
                say(f"FAILED {self.part.name}\n{self.output}\n")
        elif not self.crash and (code not in (0, 1, 5) or (code == 1 and not self.failed)):
            self.crash = f"its pytest ended with code {code}"
        if self.crash:
            say(f"{self.crashed}\n{self.output[-20000:]}\n")

    @property
    def crashed(self) -> str:
        during = [name for name, test in self.tests.items() if test.outcome == "begun"]
        where = f" in {during[0]}" if during else ""
        return f"CRASHED {self.part.name}: {self.crash}{where}; its files: {' '.join(self.part.files)}"

    def line(self) -> str:
        counts = Counter(test.outcome for test in self.tests.values())
        shown = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name]) or "no tests"
        if self.part.command:
            shown = self.output.splitlines()[-1] if self.output else shown
        return f"{self.part.name:<20} {shown}{', CRASHED' if self.crash else ''} in {self.seconds:.0f} s"


def say(text: str) -> None:
    print(text, flush=True)


# What there is to run...


def parts_of(rooms: Iterable[str], tier: str) -> Iterator[Part]:
    """The rooms, by default all of them and the checks, in parts."""
    static = ["checks"] if tier in ("quick", "all") else []
    wanted = list(rooms) or [*static, *sorted({_room(path) for path in test_files(TESTS)})]
    for room in wanted:
        if room == "checks":
            yield from checks()
            continue
        top = TESTS if room == "tests" else TESTS / room
        if not top.exists():
            raise SystemExit(f"there is no room {room!r}: a room is a folder of tests/, such as terminal or cli/chat")
        files = [path for path in test_files(top) if room != "tests" or path.parent == TESTS]
        lengths = {path: length for path in files if (length := expected(path, tier))}
        yield from cut(room, lengths, tier)


def test_files(top: Path) -> list[Path]:
    found = [top] if top.is_file() else sorted(top.rglob("test_*.py"))
    return [path for path in found if not NOT_HERE & set(path.relative_to(TESTS).parts)]


def _room(path: Path) -> str:
    first, *rest = path.relative_to(TESTS).parts
    return first if rest else "tests"


def expected(path: Path, tier: str) -> float:
    """How many seconds it takes, about. Of slow tests it is enough to see their marks: to load all files to find them
    would take longer than many of them."""
    text = path.read_text()
    tests, rows = text.count("def test_"), text.count("spread(")  # see tests/tiers.py
    whole = {mark for mark in ("slow", "long") if f"\npytestmark = pytest.mark.{mark}" in text}
    found = {
        mark: SLOW.get(_room(path), 8.0) * (tests if mark in whole else text.count(f"mark.{mark}") + rows)
        for mark in ("slow", "long")
    }
    found["quick"] = 0.0 if whole else (text.count("\n") + 1) * PACES.get(_room(path), 15) / 1000
    return sum(found.values()) if tier == "all" else found[tier]


def cut(room: str, lengths: dict[Path, float], tier: str) -> Iterator[Part]:
    """Neighbours stay together: they share fixtures and modules."""
    name = f"{room}, slow" if tier == "slow" else room
    total = sum(lengths.values())
    count = math.ceil(total / LENGTH)
    groups: list[list[Path]] = [[] for _ in range(count)]
    before = 0.0
    for path, length in lengths.items():
        groups[int((before + length / 2) / total * count)].append(path)
        before += length
    for number, group in enumerate(filter(None, groups), start=1):
        files = tuple(str(path.relative_to(TOP)) for path in group)
        yield Part(f"{name} {number}" if count > 1 else name, sum(lengths[path] for path in group), tier, files)


def checks() -> Iterator[Part]:
    """The types of the whole program take as long as any part."""
    programs = Path(sys.executable).parent
    looked_at = ("src", "tests", "benchmarks", "evals")
    yield Part("mypy", math.inf, command=(str(programs / "mypy"),))
    yield Part("the page's types", LENGTH, command=("make", "--no-print-directory", "check-page"))
    yield Part("ruff check", 0, command=(str(programs / "ruff"), "check", *looked_at))
    yield Part("ruff format", 0, command=(str(programs / "ruff"), "format", "--check", *looked_at))


# Running it...


def start(part: Part, place: Path) -> Running:
    place.mkdir()
    command = list(part.command)
    if not command:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
        command += ["-p", "tests.reported", "--report-to", str(place / "report"), "--basetemp", str(place / "t")]
        command += [] if part.tier == AGAIN else ["--assert=plain", "--showlocals", *MARKS[part.tier]]
        command += part.files
    with open(place / "output", "wb") as output:
        # A session of its own: no terminal, and a Ctrl-C is passed on by us alone.
        env = {**os.environ, "TESTS_FORKED": "1"} if part.tier == "quick" else None  # see tests/forked.py
        process = subprocess.Popen(
            command, cwd=TOP, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    return Running(part, process, place, time.monotonic())


def run(parts: list[Part], jobs: int, top: Path) -> Iterator[Running]:
    """Run them all; each comes out when it has ended."""
    waiting = sorted(parts, key=lambda part: part.length)
    active: list[Running] = []
    begun = 0
    try:
        while waiting or active:
            while waiting and len(active) < jobs:
                active.append(start(waiting.pop(), top / str(begun)))
                begun += 1
            for one in list(active):
                one.listen()
                if one.process.poll() is not None:
                    active.remove(one)
                    one.finish(one.process.returncode)
                    if not one.failed:
                        shutil.rmtree(one.place / "t", ignore_errors=True)
                    yield one
                elif time.monotonic() - one.began > LIMIT:
                    one.crash = f"it took longer than {LIMIT:.0f} s"
                    stop([one])
            time.sleep(0.1)
    finally:
        stop(active)


def stop(running: list[Running]) -> None:
    """Ask each pytest to end, which lets tests end what they have started, and kill what does not."""
    for one in running:
        one.process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + GRACE
    for one in running:
        try:
            one.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()


def sweep(top: Path) -> None:
    """Kill what tests that were ended in the middle have left: what has a directory of theirs in its environment."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(place.name) != os.getpid() and os.fsencode(top) in (place / "environ").read_bytes():
                os.kill(int(place.name), signal.SIGKILL)


def run_all(parts: list[Part], jobs: int, top: Path) -> list[Running]:
    top.mkdir()
    ended: list[Running] = []
    for one in run(parts, jobs, top):
        ended.append(one)
        say(f"{len(ended):>3}/{len(parts)}  {one.line()}")
    return ended


def try_again(tests: dict[str, Test], top: Path) -> list[str]:
    """Run those that failed once more. Returns those that then passed, with how they had failed: of more than a few
    that failed none counts as flaky."""
    failed = [name for name, test in tests.items() if test.outcome == "failed" and "::" in name]
    if not failed:
        return []
    say("once more, what failed:")
    flaky = []
    for one in run_all([Part("once more", 0, AGAIN, tuple(failed[:RERUNS]))], 1, top):
        for name, test in one.tests.items():
            if test.outcome == "passed" and name in failed and len(failed) <= RERUNS:
                flaky.append(f"FAILED ONCE, then passed: {name}\n{tests[name].text}\n")
                tests[name] = test
    return flaky


def report(ended: list[Running], tests: dict[str, Test], flaky: list[str], seconds: float) -> int:
    for text in flaky:
        say(text)
    crashed = [one for one in ended if one.crash]
    for one in crashed:
        say(one.crashed)
    for name, test in tests.items():
        if test.outcome == "failed":
            say(f"FAILED {name}")
    counts = Counter(test.outcome for test in tests.values())
    counts["failed"] += len(crashed)
    say(f"{seconds:.0f} s, {sum(one.cpu for one in ended) / 60:.1f} minutes of CPU in tests")
    say(", ".join(f"{counts[name]} {name}" for name in OUTCOMES))
    return 1 if counts["failed"] or not counts["passed"] else 0


def write_durations(path: str, ended: list[Running]) -> None:
    """For each part and each test how long it took, in JSON."""
    parts = {one.part.name: {"seconds": round(one.seconds, 2), "cpu": round(one.cpu, 2)} for one in ended}
    tests = {name: round(test.seconds, 3) for one in ended for name, test in one.tests.items()}
    Path(path).write_text(json.dumps({"parts": parts, "tests": tests}, indent=0))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description="Run the tests and the static checks.")
    parser.add_argument("rooms", nargs="*", help="folders of tests/, or checks: by default all")
    parser.add_argument("--tier", choices=tuple(MARKS), nargs="+", default=["all"], help="several run side by side")
    parser.add_argument("--jobs", type=int, default=4, help="parts at a time")
    parser.add_argument("--durations-to", metavar="FILE", help="write how long each part and test took")
    given = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    rooms = [room.strip("/") for given_rooms in given.rooms for room in given_rooms.split(",") if room]
    parts = [part for tier in given.tier for part in parts_of(rooms, tier)]
    top = Path(tempfile.mkdtemp(prefix="tt-"))
    try:
        ended = run_all(parts, given.jobs, top / "1")
        tests = {name: test for one in ended for name, test in one.tests.items()}
        flaky = try_again(tests, top / "2")
    except KeyboardInterrupt:
        sweep(top)
        shutil.rmtree(top, ignore_errors=True)
        say("stopped")
        return 130
    if given.durations_to:
        write_durations(given.durations_to, ended)
    failed = any(one.failed for one in ended)
    if failed:
        say(f"the temporary files of what failed are in {top}")
    else:
        shutil.rmtree(top, ignore_errors=True)
    return report(ended, tests, flaky, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
