"""Mutated lines, receipts and patterns: nothing but the errors that are meant for it, and the same answer twice."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.wire.conversations.sidecar import SAMPLE_ORDER, SAMPLE_RECEIPT
from treadle.errors import ConfigError, RemoteProtocolError
from treadle.io.paths import DISK
from treadle.policy import patterns
from treadle.policy.guess import access_of
from treadle.policy.lists import ListPolicy, Lists
from treadle.wire.sidecar.connection import Connection, Run
from treadle.wire.sidecar.receipts import encode, normal, receipt_hash
from treadle.wire.sidecar.repair import read_receipt

CORPUS = Path(__file__).parent / "corpus" / "sidecar"
RUN = "550e8400-e29b-41d4-a716-446655440000"
HELLO = b'{"t":"hello","contract_version":"abp/v0.1","backend":{"id":"s"},"capabilities":{}}\n'
ROUNDS = 40_000
PIECES = [
    *(b"{", b"}", b"[" * 300, b"]", b'"', b"\\", b"\\ud800", b"\n", b"\r\n", b"\0", b"\xff", b"\xc3", b":", b","),
    *(b"null", b"true", b"-0", b"1e999", b"1e-400", b"123456789012345678901234567890", b"0.1e17", b"\xe2\x80\xa8"),
    *(b'"t"', b'"type"', b'"ref_id"', b'"ext"', b'"receipt_sha256"'),
    *(b"**", b"*", b"{a,b}", b"[!", b"/", b"..", b"~"),
]


def mutated(data: bytes, chance: random.Random) -> bytes:
    text = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(text) + 1)
        match chance.randrange(5):
            case 0 if text:
                text[min(at, len(text) - 1)] = chance.randrange(256)
            case 1:
                del text[at : at + chance.randrange(1, 40)]
            case 2:
                text[at:at] = chance.choice(PIECES)
            case 3:
                text[at:at] = text[at : at + chance.randrange(1, 60)]
            case _:
                text = text[:at]
    return bytes(text)


def corpus() -> list[bytes]:
    return [line for path in sorted(CORPUS.glob("*.jsonl")) for line in path.read_bytes().split(b"\n") if line]


def rounds(seed: int) -> Iterator[tuple[random.Random, bytes]]:
    chance, lines = random.Random(seed), corpus()
    for _ in range(ROUNDS):
        yield chance, mutated(chance.choice(lines), chance)


def heard(pieces: list[bytes]) -> list[object]:
    host = Connection("host")
    host.receive(HELLO)
    host.send(Run(id=RUN, work_order=SAMPLE_ORDER))
    found: list[object] = []
    try:
        for piece in pieces:
            found += host.receive(piece)
        found += host.end()
    except RemoteProtocolError as error:
        found.append(error)
    return [type(item) if isinstance(item, Exception) else item for item in found]


def test_lines_are_read_alike_however_they_are_cut() -> None:
    for chance, line in rounds(1):
        stream = line + b"\n" + HELLO[: chance.randrange(20)]
        cut = chance.randrange(len(stream) + 1)
        assert heard([stream]) == heard([stream[:cut], stream[cut:]]), stream


def test_a_receipt_that_can_be_read_has_one_hash() -> None:
    text, chance = encode(SAMPLE_RECEIPT), random.Random(2)
    read = 0
    for _ in range(ROUNDS):
        try:
            receipt = normal(read_receipt(mutated(text, chance), []))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        read += 1
        again = normal(read_receipt(encode(receipt), []))
        assert receipt_hash(again) == receipt_hash(receipt)
    assert read > ROUNDS / 50


def test_patterns_and_policies_never_fail_in_other_ways() -> None:
    chance = random.Random(3)
    start = [b"src/**", b"**/.env", b"{a,b}/[!x]*.py", b"~/x", b"/etc/**", b"a.txt"]
    for _ in range(ROUNDS):
        pattern = mutated(chance.choice(start), chance).decode("utf-8", "replace")
        path = mutated(chance.choice(start), chance).decode("utf-8", "replace").replace("\0", "")
        try:
            patterns.match(pattern, path)
            judge = ListPolicy(Lists(deny_read=[pattern], deny_write=[pattern]), "/work", DISK)
            judge(access_of("read", {"path": path, "command": pattern}))
        except ConfigError:
            pass


@pytest.mark.parametrize("name", ["contract.jsonl", "odd.jsonl"])
def test_the_corpus_itself_is_read_without_a_crash(name: str) -> None:
    check: Callable[[list[bytes]], list[object]] = heard
    for line in (CORPUS / name).read_bytes().splitlines(keepends=True):
        check([line])
