"""A thousand hostile trees, ended in three ways. What is left is counted by a mark in the environment: 0.

`SOAK_TREES` sets how many; `make soak` runs it.
"""

import os
import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.io.process import trees
from tests.io.process.hostile import MODES, await_none_left, left
from treadle.io.process import table

ROUNDS = int(os.environ.get("SOAK_TREES", "1000"))
AT_ONCE = 4
WAYS = ("stop", "kill -9 of the owner", "kill -9 of its group")


def one(number: int) -> tuple[str, int, int]:
    """Grow a hostile tree, end it, and count: how it was ended, how many ran before, how many are left."""
    choose = random.Random(number)
    way = WAYS[number % len(WAYS)]
    modes = choose.sample(sorted(MODES), choose.randint(1, 4))
    mark = f"soak-{os.getpid()}-{number}-"
    env = {**os.environ, "SOAK_MARK": mark}
    if way == "stop":
        started = trees.hostile(*modes, env=env)
        before = len(left(mark))
        time.sleep(choose.random() * 0.02)
        report = started.stop(choose.choice([0, 0.01, 0.1]))
        # No patience here: when stop has returned, nothing may be left.
        return way, before, len(left(mark)) + len(report.left)
    process, keeper = trees.owner(*modes, env=env)
    start = table.start_time(keeper)
    before = len(left(mark))
    time.sleep(choose.random() * 0.02)
    if way == WAYS[1]:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    found = await_none_left(mark, patience=30)
    deadline = time.monotonic() + 10
    while table.lives(keeper, start):
        if time.monotonic() > deadline:
            return way, before, len(found) + 1
        time.sleep(0.005)
    return way, before, len(found)


@pytest.mark.timeout(3600)
def test_nothing_is_left_of_any_hostile_tree(capsys: pytest.CaptureFixture[str]) -> None:
    ended, ran, stayed = Counter[str](), Counter[str](), Counter[str]()
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for way, before, after in pool.map(one, range(ROUNDS)):
            ended[way] += 1
            ran[way] += before
            stayed[way] += after
    with capsys.disabled():
        print(f"\n{ROUNDS} hostile trees in {time.monotonic() - began:.0f} s")
        print(f"{'ended by':<22} {'trees':>6} {'processes':>10} {'left':>5}")
        for way in WAYS:
            print(f"{way:<22} {ended[way]:>6} {ran[way]:>10} {stayed[way]:>5}")
    assert stayed.total() == 0
