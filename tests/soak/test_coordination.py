"""Many agents that claim, renew, release and are killed, watched all the while."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from tests.coordination.test_surfaces import PATHS
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning
from treadle.coordination.surfaces import Surface
from treadle.policy import patterns

PAIRS = 30_000
NAMES = ["a", "b", "ab", "*", "?", "**", "[ab]", "[!a]", "a*", "*b", "{a,b}"]
WRITERS = 200
KILLS = 150
AGENTS = 6
AGENT = """
import random, sys
from treadle.coordination.ledger import Blackboard
from treadle.coordination.claims import Claims
from treadle.coordination.ledger import Ledger
from treadle.coordination.planning import Planning
from treadle.errors import Denied, NotFound
root, haid, seed = sys.argv[1:]
planning, chance = Planning(root), random.Random(int(seed))
claims = Claims(planning)
surfaces = ["src/**", "src/*/x", "lib", "lib/a.ts#f", "lib/a.ts#g", "**/*.md", "docs", "{src,docs}/b"]
for number in range(1_000_000):
    try:
        if chance.random() < 0.6:
            wanted = chance.sample(surfaces, chance.randrange(1, 3))
            claims.claim(haid, wanted, "soak", shared=chance.random() < 0.3)
        elif chance.random() < 0.5:
            claims.heartbeat(haid)
        else:
            claims.release(haid)
    except (Denied, NotFound):
        pass
    Blackboard(planning).set(f"{haid}/{chance.randrange(5)}", str(number))
    Ledger(planning).log("soak", haid, 1)
    print(number, flush=True)
"""


def start(root: str, number: int, seed: int) -> "subprocess.Popen[bytes]":
    arguments = [sys.executable, "-c", AGENT, root, f"haid:soak.box-{number:04x}", str(seed)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE)


def look(claims: Claims) -> None:
    """Under the lock, nothing that is held overlaps, and every file is whole."""
    with claims.lock():
        active = claims.active()
        for one, other in itertools.combinations(active, 2):
            for a, b in itertools.product(one.texts, other.texts):
                if not (one.is_shared(a) and other.is_shared(b)):
                    assert not Surface(a).overlaps(Surface(b)), (one.fields, other.fields)
        fences = [claim.fence for claim in active]
        assert len(fences) == len(set(fences))
        assert max(fences, default=0) <= int(Path(claims.planning.path("ledger", "fence")).read_text())
        for name in os.listdir(claims.directory):
            if not name.startswith("."):  # what a killed writer left beside
                json.loads((Path(claims.directory) / name).read_text())


def test_nothing_overlaps_and_nothing_is_lost_while_agents_are_killed(tmp_path: Path) -> None:
    root = str(tmp_path / ".planning")
    claims = Claims(Planning(root))
    chance = random.Random(3)
    acknowledged = 0
    agents = {number: start(root, number, number) for number in range(AGENTS)}
    for kill in range(KILLS):
        number = chance.randrange(AGENTS)
        agent = agents[number]
        assert agent.stdout is not None
        for _ in range(chance.randrange(1, 12)):
            acknowledged += bool(agent.stdout.readline())
        if os.path.isdir(claims.directory):
            look(claims)
        agent.send_signal(signal.SIGKILL)
        acknowledged += len(agent.stdout.read().splitlines())
        agent.wait()
        agent.stdout.close()
        agents[number] = start(root, number, AGENTS + kill)
    for agent in agents.values():
        agent.kill()
        assert agent.stdout is not None
        acknowledged += len(agent.stdout.read().splitlines())
        agent.wait()
        agent.stdout.close()
    look(claims)
    from treadle.coordination.ledger import Ledger

    assert Ledger(Planning(root)).totals().total >= acknowledged > KILLS
    json.loads((tmp_path / ".planning" / "blackboard.json").read_text())


def test_overlap_is_what_trying_every_path_says() -> None:
    chance = random.Random(17)
    covered: dict[str, frozenset[str]] = {}
    met = 0
    for _ in range(PAIRS):
        one, other = ("/".join(chance.choices(NAMES, k=chance.randrange(1, 4))) for _ in range(2))
        for text in (one, other):
            if text not in covered:
                covered[text] = frozenset(path for path in PATHS if patterns.match(text, path))
        judged = Surface(one).overlaps(Surface(other))
        assert judged == bool(covered[one] & covered[other]), (one, other)
        met += judged
    print(f"{PAIRS:,} pairs of {len(covered):,} surfaces, {met:,} overlap: all as {len(PATHS):,} paths say")


def test_two_hundred_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "config", "user.email", "ann@example.org"], check=True)
    running = []
    for number in range(WRITERS):
        env = {**os.environ, "HEIMDALL_HAID": f"haid:soak.box-{number:04x}"}
        for words in (
            f"resolve set F{number} src/{number}.py",
            f"blackboard set key{number} {number}",
            f"ledger log --role r --kind k --tokens 1 --msg-id m{number}",
            f"claim claim src/{number}.py --task T",
        ):
            name, *arguments = words.split()
            command = [str(Path(sys.executable).parent / f"heimdall-{name}"), *arguments]
            running.append(subprocess.Popen(command, cwd=tmp_path, env=env, stdout=-3, stderr=-3))
    assert [process.wait() for process in running] == [0] * len(running)
    planning = Planning(project=str(tmp_path))
    from treadle.coordination.ledger import Blackboard, Ledger, Symbols

    kept = {
        "symbols": len(Symbols(planning).all()),
        "facts": len(Blackboard(planning).all()),
        "ledger lines": Ledger(planning).totals().total,
        "claims": len(Claims(planning).active()),
    }
    print(f"{WRITERS} writers at once, of each kind: {kept}")
    assert set(kept.values()) == {WRITERS}
