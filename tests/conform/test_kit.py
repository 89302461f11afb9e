"""What running a kit promises, whatever the protocol, and the forms of its report."""

import signal
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.conform.conftest import OURS, clauses, kit
from treadle.conform.kit import (
    Broken,
    Candidate,
    Kit,
    Outcome,
    Ruling,
    Untried,
    as_data,
    asked,
    counts,
    judge,
    junit,
    summary,
    table,
)
from treadle.errors import RemoteProtocolError

SLEEPER = (sys.executable, "-c", "import sys; sys.stdin.read()")

NONE = Candidate(command=SLEEPER)


def one(outcome: Exception | str) -> Kit:
    found = Kit(protocol="p", specification="s", clauses=[])

    @found.clause("Section", "it does what it says")
    async def _(candidate: Candidate) -> str:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return found


@pytest.mark.parametrize(
    ("outcome", "ruled", "seen"),
    [
        ("fine", "kept", "fine"),
        (Broken("no line came"), "broken", "no line came"),
        (Untried("n/a"), "untried", "n/a"),
        (KeyError("ours"), "broken", "the kit cannot read what it sent: KeyError: 'ours'"),
    ],
)
async def test_a_clause_is_kept_broken_or_not_tried(outcome: Exception | str, ruled: str, seen: str) -> None:
    [found] = await judge(one(outcome), NONE)
    assert (found.outcome, found.seen, found.section) == (ruled, seen, "Section")


async def test_only_the_clauses_with_the_words_are_tried_and_each_is_told() -> None:
    told: list[str] = []
    assert await judge(one("x"), NONE, only="something else") == []
    await judge(one("x"), NONE, only="SECTION it does", tell=lambda ruling: told.append(ruling.sentence))
    assert told == ["it does what it says"]


@pytest.mark.parametrize("protocol", OURS)
def test_every_sentence_of_a_protocol_is_said_once(protocol: str) -> None:
    assert len(set(clauses(protocol))) == len(clauses(protocol)) >= 14
    assert kit(protocol).protocol == protocol


async def test_a_program_that_exits_at_once_breaks_what_is_asked_of_it_and_its_last_words_are_shown() -> None:
    gone = Candidate(command=(sys.executable, "-c", "import sys; sys.exit('no key')"))
    found = await judge(kit("worker"), gone, only="init is answered by one init_ok")
    assert [ruling.outcome for ruling in found] == ["broken"] and "no key" in found[0].seen


async def test_a_program_that_asks_no_model_is_not_judged_by_what_needs_one() -> None:
    with pytest.raises(Untried, match="did not ask the model"):
        async with Candidate(command=SLEEPER, patience=0.1).started() as peer:
            await asked(peer)


async def test_a_program_starts_in_an_empty_directory_of_its_own_or_in_a_repository() -> None:
    async with NONE.started() as peer:
        empty = Path(peer.cwd)
        assert list(empty.iterdir()) == []
        assert peer.model_name == NONE.model
    says = "import os; print('{}', flush=True); print(__import__('json').dumps(dict(os.environ)), flush=True)"
    async with Candidate(command=(sys.executable, "-c", says)).started(repository=True, env={"A": "b"}) as peer:
        assert (Path(peer.cwd) / ".git" / "HEAD").is_file(), "it is made before the program begins"
        assert await peer.hear() == {}
        environment = await peer.hear()
        assert environment["HEIMDALL_PLANNING_DIR"] == f"{peer.cwd}/.planning" and environment["A"] == "b"
        assert environment["ANTHROPIC_BASE_URL"] == peer.model.url and environment["HEDDLE_BASE_URL"].endswith("/v1")
    assert not empty.exists()


RUNNER = """
import json, os, signal, sys, urllib.request
said = sys.stdin.read()
signal.signal(signal.SIGINT, lambda *_: (print("interrupted", flush=True), os._exit(7)))
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, json.dumps({"messages": [{"role": "user", "content": said}]}).encode())
urllib.request.urlopen(request).read()
print(sys.argv[1], os.environ["MINE"])
sys.exit("why")
"""


async def test_a_run_from_start_to_end_is_its_code_what_it_wrote_and_what_its_model_was_asked() -> None:
    runner = Candidate(command=(sys.executable, "-c", RUNNER), env={"MINE": "set"}, patience=60.0)
    found = await runner.once(["word"], stdin=b"hello")
    assert (found.code, found.output, found.errors) == (1, "word set\n", "why\n")
    assert found.requests == [{"messages": [{"role": "user", "content": "hello"}]}]
    slow = '[[reply]]\ntext = "x"\ndelay = 600\n'
    found = await runner.once(["word"], script=slow, interrupt=signal.SIGINT)
    assert (found.code, found.output) == (7, "interrupted\n") and found.requests[0]["messages"][0]["content"] == ""


async def test_what_does_not_come_in_time_is_broken() -> None:
    (found,) = await judge(one(TimeoutError()), Candidate(command=SLEEPER, patience=1.5))
    assert (found.outcome, found.seen) == ("broken", "nothing came within 1.5 s")
    (found,) = await judge(one(RemoteProtocolError("odd")), NONE)
    assert (found.outcome, found.seen) == ("broken", "odd")


KIT = Kit(protocol="worker", specification="s", clauses=[])


def ruling(outcome: Outcome, seen: str = "seen") -> Ruling:
    return Ruling(sentence=f"it is {outcome}", section="All", outcome=outcome, seen=seen, seconds=0.5)


MIXED = [ruling("kept"), ruling("broken", "a \x00 byte & <more>"), ruling("untried")]


def test_what_was_not_tried_counts_neither_way() -> None:
    assert counts(MIXED) == (1, 1, 1)
    assert summary(KIT, MIXED) == "worker: 1 of 2 clauses kept, 1 not tried"
    assert summary(KIT, MIXED[:1]) == "worker: 1 of 1 clauses kept"
    assert as_data(KIT, "./w", MIXED)["broken"] == 1


def test_junit_has_a_case_for_each_clause_whatever_the_program_wrote() -> None:
    assert junit(KIT, "./w", MIXED).startswith(b"<?xml")
    suite = ET.fromstring(junit(KIT, "./w", MIXED))
    assert dict(suite.attrib) == {"name": "worker: ./w", "tests": "3", "failures": "1", "skipped": "1"}
    assert [[part.tag for part in case] for case in suite] == [[], ["failure"], ["skipped"]]
    assert suite[1][0].get("message") == "a \ufffd byte & <more>"


def test_two_programs_stand_side_by_side() -> None:
    with pytest.raises(ValueError):
        table(KIT, {"ours": MIXED, "theirs": MIXED[:1]})
    lines = table(KIT, {"ours": [ruling("kept")], "theirs": [ruling("kept", "x")]}).splitlines()
    assert lines[0] == "| worker | ours | theirs |"
    assert lines[2:] == ["| clauses kept | 1 of 1 | 1 of 1 |", "| it is kept | yes | yes |"]


@pytest.mark.parametrize("protocol", ["acp", "mcp", "worker", "sidecar"])
@pytest.mark.parametrize("code", ["import sys; sys.stdin.read()", "raise SystemExit('no key')"])
async def test_a_program_that_is_dead_at_its_start_is_judged_within_one_time_out(protocol: str, code: str) -> None:
    first, *rest = await judge(kit(protocol), Candidate(command=(sys.executable, "-c", code), patience=1.0))
    assert first.outcome == "broken" and {each.outcome for each in rest} == {"untried"}
    assert {each.seen for each in rest} == {"it did not answer the first request"}
