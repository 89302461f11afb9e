"""The heimdall-* commands against bash and jq doing the same job, overlap decisions, a big ledger, tokens per wave."""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from treadle.coordination.claims import Claim, Held
from treadle.coordination.demo import demo
from treadle.coordination.surfaces import Surface

BIN = Path(sys.executable).parent
ROUNDS = 15
PEERS = str(Path(__file__).with_name("coordination_peers.sh"))
COMMANDS = (
    "resolve F12",
    "resolve set F12 src/x.ts",
    "blackboard get port",
    "validate",
    "capsule hydrate w2",
    "capsule hydrate w4",
    "brief build --task 1 --spec do-it --symbols F12,C3 --capsules w1",
    "ledger log --role r --kind k --tokens 3",
    "ledger delta --role r",
    "gate to-message --report report.json --from s --msg-id g1",
    "claim list",
    "claim claim lib/** --task T",
    "haid current",
    "protocol log",
)
"""The words after `heimdall-`, and after the name of the peers' script."""
MESSAGE = b'{"type":"task_result","from":"coder","msg_id":"m1","task":"3.2","status":"pass","criteria":[1,2]}'


def prepare(top: Path) -> dict[str, str]:
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    subprocess.run(["git", "-C", str(top), "config", "user.email", "ann@example.org"], check=True)
    # As installed: with compiled modules, which some environments forbid to write.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env.pop("HEIMDALL_PLANNING_DIR", None)  # both have to find it
    (top / "report.json").write_text(json.dumps({"gate_id": "g", "status": "pass", "metrics": {}}))
    for words in (
        ["protocol", "init"],
        ["resolve", "set", "F12", "src/x.ts"],
        ["resolve", "set", "C3", "balances sum to zero"],
        ["blackboard", "set", "port", "5173"],
        ["capsule", "write", "w1", "--what", "one"],
        ["capsule", "write", "w2", "--what", "two", "--depends", "w1"],
        ["capsule", "write", "w3", "--what", "three", "--depends", "w1"],
        ["capsule", "write", "w4", "--what", "four", "--depends", "w2,w3"],
        ["ledger", "baseline", "--role", "r", "--tokens", "100"],
        ["claim", "claim", "src/**", "--task", "T", "--role", "other"],
    ):
        command = [str(BIN / f"heimdall-{words[0]}"), *words[1:]]
        subprocess.run(command, cwd=top, env=env, check=True, stdout=subprocess.DEVNULL)
    return env


def timed(command: list[str], top: Path, env: dict[str, str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, cwd=top, env=env, input=MESSAGE, stdout=subprocess.DEVNULL)
    assert done.returncode == 0, command
    return time.perf_counter() - started


def commands() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        env = prepare(top)
        nothing = [sys.executable, "-c", "pass"]
        print(f"{'command':18} {'ours ms':>8} {'bash+jq ms':>11} {'ratio':>6} {'x python':>9}   median of {ROUNDS}")
        for words in COMMANDS:
            command, *arguments = words.split()
            ours = [str(BIN / f"heimdall-{command}"), *arguments]
            peer = ["bash", PEERS, command, *arguments]
            rows = [(timed(ours, top, env), timed(peer, top, env), timed(nothing, top, env)) for _ in range(ROUNDS + 1)]
            a, b, c = (statistics.median(column) * 1e3 for column in zip(*rows[1:], strict=True))
            print(f"{words[:18]:18} {a:8.1f} {b:11.1f} {a / b:6.2f} {a / c:9.2f}")


def overlaps() -> None:
    chance = random.Random(1)

    def path(depth: int) -> str:
        return "/".join(f"{chance.choice(['src', 'lib', 'app', 'docs'])}{chance.randrange(40)}" for _ in range(depth))

    endings = [".ts", ".ts", ".ts#f", "/**", "/*.ts", "/**/*.py"]
    texts = [path(chance.randrange(2, 5)) + chance.choice(endings) for _ in range(10_000)]
    held = Held([Claim({"haid": f"haid:a.b-{n:04x}", "claimed_surfaces": [text]}) for n, text in enumerate(texts)])
    surfaces = [Surface(text) for text in texts]
    for kind, asked in (
        ("paths", [Surface(path(3) + ".ts") for _ in range(3000)]),
        ("globs", [Surface(path(1) + "/*/*.ts") for _ in range(300)]),
    ):
        held.overlaps(asked[:10])
        started = time.perf_counter()
        found = len(held.overlaps(asked))
        rate = len(asked) / (time.perf_counter() - started)
        few = asked[:20]
        started = time.perf_counter()
        sum(one.overlaps(other) for one in few for other in surfaces)
        each = len(few) / (time.perf_counter() - started)
        print(f"{kind}: {rate:,.0f} exact decisions/s, {rate / each:.0f}x looking at each claim ({found} overlaps)")


def big_ledger() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        planning = Path(scratch) / ".planning"
        (planning / "protocol").mkdir(parents=True)
        path = planning / "protocol" / "ledger.jsonl"
        roles = ["orchestration", "coder", "reviewer", "tester"]
        with path.open("w") as file:
            number = 0
            while file.tell() < 50_000_000:
                for role in roles:
                    file.write(
                        f'{{"ts":"2026-06-11T12:07:27Z","role":"{role}","kind":"task_result","tokens":{number % 5000},'
                        f'"msg_id":"m{number}","source":"counted","run":"r{number % 7}"}}\n'
                    )
                    number += 1
        env = {**os.environ, "HEIMDALL_PLANNING_DIR": str(planning)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        ours = [str(BIN / "heimdall-ledger"), "report"]
        peer = ["jq", "-n", "reduce inputs as $l ({}; .[$l.role] += $l.tokens)", str(path)]
        a = min(timed(ours, Path(scratch), env) for _ in range(3))
        b = min(timed(peer, Path(scratch), env) for _ in range(2))
        size = path.stat().st_size / 1e6
        print(f"report of {size:.0f} MB, {number:,} lines: {a:.2f} s, jq {b:.2f} s, {b / a:.1f}x faster")


def main() -> None:
    if not shutil.which("jq"):
        print("jq is not installed: nothing to compare with")
        return
    commands()
    overlaps()
    big_ledger()
    for line in demo():
        print(line)
