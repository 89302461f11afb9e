"""The token ledger."""

import json
import os
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.coordination.conftest import Run
from treadle.coordination import ledger as module
from treadle.coordination.ledger import Ledger, LedgerTotals, change_percent, delta_text
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Planning(str(tmp_path / ".planning"), project=str(tmp_path), clock=lambda: 1_781_179_647.0))


def test_a_line_has_its_keys_in_order(ledger: Ledger) -> None:
    ledger.log("coder", "task_result", "0250", msg_id="m1")
    ledger.log("coder", "task_result", 3, source="measured", run="r1")
    assert Path(ledger.path).read_text() == (
        '{"ts":"2026-06-11T12:07:27Z","role":"coder","kind":"task_result","tokens":250,"msg_id":"m1","source":"declared"}\n'
        '{"ts":"2026-06-11T12:07:27Z","role":"coder","kind":"task_result","tokens":3,"source":"measured","run":"r1"}\n'
    )


@pytest.mark.parametrize("tokens", ["", "-1", "1.5", "1e3", "x", "٣", "9" * 19])
def test_only_digits_are_a_number_of_tokens(ledger: Ledger, tokens: str) -> None:
    with pytest.raises(ConfigError):
        ledger.log("r", "k", tokens)
    assert not os.path.exists(ledger.path)


def test_a_number_must_say_where_it_is_from(ledger: Ledger) -> None:
    with pytest.raises(ConfigError):
        ledger.log("r", "k", 1, source="guessed")
    ledger.log("r", "k", 1, source="counted")
    ledger.log("r", "k", 2, source="measured")
    assert ledger.report().sources == {"counted": 1, "measured": 2}


def test_the_run_of_the_environment_is_what_is_reported(heimdall: Run) -> None:
    for run in ("a", "b"):
        heimdall("ledger", "log", "--role", "r", "--kind", "k", "--tokens", "5", "--run", run)
    assert "TOTAL: 5 tokens" in heimdall("ledger", "report", HEIMDALL_RUN="a").stdout
    assert "-> 5 tokens" in heimdall("ledger", "delta", "--role", "r", HEIMDALL_RUN="b").stdout
    assert "TOTAL: 10 tokens" in heimdall("ledger", "report", "--run", "", HEIMDALL_RUN="a").stdout
    assert "TOTAL: 10 tokens" in heimdall("ledger", "report").stdout


@pytest.mark.parametrize(
    ("base", "measured", "text"),
    [
        (41000, 11250, "r: 41000 -> 11250 tokens (v1 baseline -> measured; -73%)"),
        (100, 807, "r: 100 -> 807 tokens (v1 baseline -> measured; +707%)"),
        (100, 100, "r: 100 -> 100 tokens (v1 baseline -> measured; -0%)"),
        (0, 5, "r: baseline n/a -> 5 tokens (no v1 baseline recorded)"),
    ],
)
def test_a_saving_is_minus_and_a_regression_is_plus(ledger: Ledger, base: int, measured: int, text: str) -> None:
    ledger.baseline("r", base)
    ledger.log("r", "k", measured)
    (row,) = ledger.delta("r")
    assert delta_text(row) == text


def test_without_a_role_every_baseline_is_compared(ledger: Ledger) -> None:
    ledger.baseline("z", 10)
    ledger.baseline("a", 10)
    assert [row["role"] for row in ledger.delta()] == ["a", "z"]
    assert delta_text(ledger.delta("new")[0]) == "new: baseline n/a -> 0 tokens (no v1 baseline recorded)"


@given(st.integers(1, 10**6), st.integers(0, 10**7))
def test_the_percentage_is_the_nearest_whole_one(base: int, measured: int) -> None:
    exact = 100 * (measured - base) / base
    assert abs(change_percent(base, measured) - exact) <= 0.5 + 1e-6


def test_a_torn_or_foreign_line_is_skipped_and_counted_and_the_next_append_starts_anew(ledger: Ledger) -> None:
    ledger.log("r", "k", 5)
    with open(ledger.path, "a") as file:
        file.write('not json\n[1]\n{"role":1,"tokens":2}\n{"role":"r","tokens":true}\n{"ts":"2026","ro')
    ledger.log("r", "k", 7)
    totals = ledger.report()
    assert (totals.total, totals.unreadable) == (12, 5)


def test_a_writer_killed_at_any_byte_costs_its_own_line_only(ledger: Ledger) -> None:
    ledger.log("r", "k", 1)
    size = os.path.getsize(ledger.path)
    acknowledged = 1
    for more in range(0, 100, 3):
        child = os.fork()
        if child == 0:
            try:
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                limit = os.path.getsize(ledger.path) + more
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                ledger.log("r", "k", 1)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        ledger.log("r", "k", 1)
        acknowledged += 1
        assert ledger.totals().total >= acknowledged
    assert os.path.getsize(ledger.path) > size
    assert ledger.totals().unreadable > 20


LINES = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from("ab"), "tokens": st.integers(0, 99)},
        optional={"run": st.sampled_from(["x", 1]), "source": st.sampled_from(["counted", None]), "kind": st.none()},
    ).map(lambda entry: json.dumps(entry).encode()),
    st.sampled_from([b"", b"torn {", b"[]", b'{"role":"a"}', b'{"role":"a","tokens":1.5}', b"\xff", b" "]),
)


@given(st.lists(LINES, max_size=30), st.sampled_from(["", "x"]), st.booleans())
def test_the_fast_way_through_a_big_ledger_gives_what_the_plain_way_gives(
    lines: list[bytes], run: str, newline: bool
) -> None:
    data = b"\n".join(lines) + b"\n" * newline
    plain, fast = LedgerTotals(), LedgerTotals()
    module._add(data, plain, run)
    assume(module._add_fast(data, fast, run))
    assert (fast.roles, fast.sources, fast.unreadable) == (plain.roles, plain.sources, plain.unreadable)


def test_a_ledger_bigger_than_one_block_is_read_whole(ledger: Ledger) -> None:
    ledger.log("r", "k", 1)
    line = Path(ledger.path).read_bytes()
    Path(ledger.path).write_bytes(line * (9_000_000 // len(line)))
    assert ledger.report().total == 9_000_000 // len(line)
