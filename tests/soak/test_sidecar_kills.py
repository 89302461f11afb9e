"""A hundred orders, twenty at a time, while sidecars and control planes are killed at random."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

from tests.installed import TREADLE
from tests.stand_ins import bad_sidecar
from treadle.host.conclusion import recover
from treadle.host.job import runs_directory
from treadle.host.store import ReceiptStore
from treadle.receipts.trace import ours

ORDERS, AT_ONCE = 100, 20
MARK = f"TREADLE_SOAK_MARK={uuid.uuid4().hex}"
ACTS = ["works_for_a_while"] * 6 + ["good", "hang_and_deaf", "orphans_after_final", "exit_without_final"]


def marked() -> dict[int, list[str]]:
    """Processes with our mark in their environment, and their command lines."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if MARK.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found[int(name)] = Path(f"/proc/{name}/cmdline").read_text().split("\0")
        except OSError:
            pass
    return found


class Soak:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.source = base / "source"
        self.source.mkdir()
        (self.source / "a.txt").write_text("one\n")
        self.chance = random.Random(11)
        self.running: set[subprocess.Popen[bytes]] = set()
        self.lock = threading.Lock()
        self.killed = {"host": 0, "sidecar": 0}
        self.done = threading.Event()
        self.attempts = 0

    def out(self, number: int) -> Path:
        return self.base / f"receipt-{number}.json"

    def attempt(self, number: int) -> None:
        act = self.chance.choice(ACTS)
        sidecar = f"{sys.executable} -I -S {bad_sidecar.__file__} {act}"
        process = subprocess.Popen(
            [TREADLE, "host", "run", "--task", f"{self.chance.uniform(0.2, 2.0):.2f}", "--sidecar", sidecar]
            + ["--root", str(self.source), "--env", MARK, "--out", str(self.out(number)), "--timeout", "5", "--json"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with self.lock:
            self.running.add(process)
            self.attempts += 1
        process.wait(120)
        with self.lock:
            self.running.discard(process)

    def order(self, number: int, slots: threading.Semaphore) -> None:
        """Until there is a receipt: who is killed before anything was written down is simply asked again."""
        with slots:
            for _ in range(20):
                self.attempt(number)
                while self.unfinished(number):  # another may be at it this moment
                    recover(ReceiptStore())
                if self.out(number).exists():
                    return
        raise AssertionError(f"order {number} has no receipt")

    def unfinished(self, number: int) -> bool:
        """Whether a run of this order has left its record and not yet its receipt."""
        for record in Path(runs_directory()).glob("*/run.json"):
            with contextlib.suppress(FileNotFoundError):
                if str(self.out(number)) in record.read_text():
                    return True
        return False

    def chaos(self) -> None:
        while not self.done.wait(self.chance.uniform(0.05, 0.4)):
            if self.chance.random() < 0.5:
                with self.lock:
                    victims = [process.pid for process in self.running if process.poll() is None]
                if len(victims) < 5:
                    continue  # the last few would never get past their start
                kind = "host"
            else:
                victims = [pid for pid, words in marked().items() if str(bad_sidecar.__file__) in words]
                kind = "sidecar"
            if victims:
                self.killed[kind] += 1
                try:
                    os.kill(self.chance.choice(victims), signal.SIGKILL)
                except ProcessLookupError:
                    pass


def test_every_order_ends_with_one_receipt_and_nothing_is_left(tmp_path: Path) -> None:
    soak = Soak(tmp_path)
    slots = threading.Semaphore(AT_ONCE)
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            soak.order(number, slots)
        except BaseException as error:
            failures.append(error)

    chaos = threading.Thread(target=soak.chaos)
    chaos.start()
    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(ORDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    soak.done.set()
    chaos.join()
    assert failures == []
    store = ReceiptStore()
    recover(store)
    _look(soak, store)


def _look(soak: Soak, store: ReceiptStore) -> None:
    assert store.check() == []
    ids = [json.loads(soak.out(number).read_text())["meta"]["run_id"] for number in range(ORDERS)]
    assert len(set(ids)) == ORDERS and {link.run_id for link in store.links()} >= set(ids)
    receipts = [store.get(link.run_id) for link in store.links()]
    assert len(receipts) == ORDERS, "one for each order"
    end = time.monotonic() + 30
    while marked() and time.monotonic() < end:
        time.sleep(0.1)
    assert marked() == {}
    kept = {ours(receipt)["workspace"].get("kept") for receipt in receipts}
    found = {str(path) for path in Path(runs_directory()).glob("*/workspace")}
    assert found <= kept, "a workspace that no receipt names"
    assert not list(Path(runs_directory()).glob("*/run.json"))
    outcomes = [receipt.outcome for receipt in receipts]
    print(
        f"{ORDERS} orders, {soak.attempts} attempts, killed {soak.killed}; {len(receipts)} receipts:"
        f" { ({name: outcomes.count(name) for name in sorted(set(outcomes))}) }; 0 processes, 0 workspaces leaked"
    )
