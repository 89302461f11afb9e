import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal import sequences
from treadle.terminal.sequences import QueryFilter, Stripper, Whole

PIECES = st.sampled_from(
    [
        b"text",
        b"\x1b",
        b"\x1b[",
        b"\x1b[31m",
        b"\x1b]0;t",
        b"\x07",
        b"\x1b\\",
        b"\x1bP1$r",
        b"\x1b[?1049h",
        b"\xe2",
        b"[c",
        b"\n",
    ]
)


@given(st.lists(PIECES | st.binary(max_size=8), max_size=30))
def test_cutting_whole_loses_and_adds_nothing(parts: list[bytes]) -> None:
    whole = Whole()
    out = b"".join(map(whole.feed, parts))
    assert out + whole._held == b"".join(parts)


@given(st.lists(PIECES, max_size=20), st.integers(1, 9))
def test_stripping_does_not_depend_on_where_the_reads_were_cut(parts: list[bytes], step: int) -> None:
    data = b"".join(parts) + b"\x1b[0mend"
    pieces = Stripper()
    cut = b"".join(pieces.feed(data[at : at + step]) for at in range(0, len(data), step))
    assert cut.replace(b"\r", b"") == Stripper().feed(data).replace(b"\r", b"")


@pytest.mark.parametrize(
    "data",
    [
        b"a\x1b]0;t\x1b]52;c;ZXZpbA==\x07b",
        b"a\x1b]0;t\x1b[31mb",
        b"a\x1bP1$q\x1b]0;x\x1b\\b",
        "a\x9b31mb".encode(),
        "a\x9d0;title\x07b".encode(),
        b"a\x9bb",
        "a\x85b".encode(),
        b"a\x1b\x1b[31mb",
    ],
)
def test_no_terminal_acts_on_what_is_stripped(data: bytes) -> None:
    for cut in range(len(data) + 1):
        pieces = Stripper()
        text = pieces.feed(data[:cut]) + pieces.feed(data[cut:])
        assert text in (b"ab", b"a31mb", b"a0;titleb"), "what stands in a C1 sequence may be left as text"


def test_a_sequence_that_never_ends_is_not_waited_for_for_ever() -> None:
    whole = Whole()
    total = b"".join(whole.feed(b"\x1b]0;" + b"x" * 50_000) for _ in range(4))
    assert len(total) > 100_000


QUERIES = [
    b"\x1b[c",
    b"\x1b[0c",
    b"\x1b[>c",
    b"\x1b[>0q",
    b"\x1b[6n",
    b"\x1b[?6n",
    b"\x1b[5n",
    b"\x1b[?u",
    b"\x1b[?2026$p",
    b"\x1b[16t",
    b"\x1b]10;?\x1b\\",
    b"\x1b]11;?\x07",
    b"\x1b]4;1;?\x07",
    b"\x1b]7501;?\x07",
    b"\x1bP+q544e\x1b\\",
    b"\x1bP$qm\x1b\\",
    b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\",
]


@pytest.mark.parametrize("query", QUERIES, ids=repr)
@pytest.mark.parametrize("step", [1, 3, 100])
def test_a_question_is_taken_out_of_a_replay_however_it_was_cut(query: bytes, step: int) -> None:
    data, cleaner = b"before" + query + b"after", QueryFilter()
    found = b"".join(cleaner.feed(data[at : at + step], everything=True) for at in range(0, len(data), step))
    assert found == b"beforeafter"


@pytest.mark.parametrize(
    "found", [*QUERIES, b"\x1b[?25h", b"\x1b[>7u", b"\x1b[<u", b"\x1b]0;t\x07", b"\x1b]7501;state=idle\x07"]
)
def test_everything_that_is_looked_for_is_notable(found: bytes) -> None:
    assert sequences.NOTABLE.search(b"text" + found)
    assert not sequences.NOTABLE.search(b"\x1b[1;31mred\x1b[0m\x1b[2J\x1b[5;1H\x1b[K\x1b(B")
