"""How long each command takes with a thousand claims and a hundred thousand ledger lines, and with one claim."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from treadle.coordination.planning import Planning
from treadle.coordination.record import ClaimStore, claim_name

BIN = Path(sys.executable).parent
CLAIMS = 1_000
LINES = 100_000
ROUNDS = 9
TIMED = {
    "claim": ["heimdall-claim", "claim", "lib/new.py", "--task", "T"],
    "claim, list": ["heimdall-claim", "list"],
    "claim, list --json": ["heimdall-claim", "list", "--json"],
    "claim, check": ["heimdall-claim", "check", "src/part7/other.py"],
    "check, leading glob": ["heimdall-claim", "check", "**/*.md"],
    "claim, leading glob": ["heimdall-claim", "claim", "**/*.md", "--task", "T"],
    "git pre-commit": [".git/hooks/pre-commit"],
    "ledger report": ["heimdall-ledger", "report"],
}


def repository(top: Path, env: dict[str, str]) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", str(top)], check=True)
    for key, value in {"user.email": "ann@example.org", "user.name": "Ann"}.items():
        subprocess.run(["git", "-C", str(top), "config", key, value], check=True)
    for name in ("lib", "src"):
        (top / name).mkdir()
    (top / "src" / "a.py").touch()
    (top / "lib" / "new.py").write_text("x = 1\n")
    for command in (["heimdall-claim", "guard", "install"], ["heimdall-claim", "claim", "src/a.py", "--task", "T"]):
        subprocess.run(command, cwd=top, env=env, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["git", "-C", str(top), "add", "lib"], check=True)


def fill(top: Path) -> None:
    """Write claims of others, as the command would write them, and ledger lines."""
    planning = Planning(project=str(top))
    store = ClaimStore(planning)
    fields = store.read(store.names()[0])
    assert fields is not None
    for number in range(CLAIMS - 1):
        haid = f"haid:bob.box-{number:06x}"
        surface = f"src/part{number % 100}/file{number}.py"
        path = top / surface
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        store.write(
            claim_name(haid), {**fields, "haid": haid, "claimed_surfaces": [surface], "fence": number + 2}, number + 2
        )
    ledger = Path(planning.live_path("protocol", "ledger.jsonl"))
    ledger.parent.mkdir(parents=True, exist_ok=True)
    line = '{{"ts":"2026-06-11T12:07:27Z","role":"{}","kind":"k","tokens":{},"msg_id":"m{}","source":"counted"}}\n'
    roles = ["orchestration", "coder", "reviewer", "tester"]
    ledger.write_text("".join(line.format(roles[number % 4], number % 5000, number) for number in range(LINES)))


def timed(command: list[str], top: Path, env: dict[str, str]) -> tuple[float, float]:
    """Milliseconds of wall time and of CPU time, which other programs on the machine affect little."""
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=top, env=env, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return took * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3


def main() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HEIMDALL", "PYTHONDONT"))}
    env["PATH"] = f"{BIN}:{env['PATH']}"
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        repository(top, env)
        rows: dict[str, list[str]] = {name: [] for name in TIMED}
        for filled in (False, True):
            if filled:
                fill(top)
            for name, command in TIMED.items():
                times = [timed(command, top, env) for _ in range(ROUNDS + 1)]
                clock, processor = (statistics.median(column) for column in zip(*times[1:], strict=True))
                rows[name].append(f"{clock:.0f} ({processor:.0f})")
    print(f"ms, median of {ROUNDS}, by the clock (of the processor), with {CLAIMS:,} claims and {LINES:,} lines")
    print(f"{'':20} {'1 claim':>14} {'many':>14}")
    for name, (few, many) in rows.items():
        print(f"{name:20} {few:>14} {many:>14}")


if __name__ == "__main__":
    main()
