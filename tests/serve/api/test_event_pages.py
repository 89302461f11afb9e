"""Events for a page: long texts are cut and say so, and pieces of a text are shown once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.serve.api.event_pages import CUT, Shown, condensed, joined, unpacked


def shown(*events: dict[str, Any]) -> list[Shown]:
    return [Shown(seq=1, attempt=1, n=number, event=event) for number, event in enumerate(events, 1)]


def delta(text: str, turn: str = "t", kind: str = "text_delta") -> dict[str, Any]:
    return {"type": kind, "turn": turn, "text": text}


def test_a_long_text_is_cut_wherever_it_is_and_its_length_is_told() -> None:
    long = "x" * (CUT + 1)
    event = {"type": "tool_ended", "text": long, "args": {"a": [long, "short"]}, "raw": {"all": long}, "n": 1}
    (made,) = unpacked(7, 2, {"n": 5, "events": [event]})
    assert (made.seq, made.attempt, made.n) == (7, 2, 5)
    assert made.cut == {"text": CUT + 1, "args.a.0": CUT + 1}
    assert made.event["text"] == made.event["args"]["a"][0] == "x" * CUT and "raw" not in made.event


def test_a_text_that_fits_exactly_is_whole() -> None:
    (made,) = unpacked(1, 1, {"events": [{"type": "message", "text": "x" * CUT}]})
    assert made.cut == {} and made.n == 1 and len(made.event["text"]) == CUT


def test_the_end_of_an_attempt_is_an_event_with_its_reason() -> None:
    (made,) = unpacked(3, 1, {"end": "missing", "why": "not kept"})
    assert (made.end, made.n, made.event) == ("missing: not kept", 0, {})


def test_pieces_of_a_text_that_follows_whole_are_left_out_and_others_are_joined() -> None:
    whole = {"type": "message", "turn": "t", "text": "ab"}
    made = condensed(shown(delta("a"), delta("b"), whole, delta("c"), {"type": "usage"}, delta("d")))
    assert [each.event.get("text") for each in made] == ["ab", "c", None, "d"]
    made = condensed(shown(delta("a"), delta("b"), delta("other", "u"), delta("t", kind="thinking_delta")))
    assert [each.event["text"] for each in made] == ["ab", "other", "t"]


def test_a_whole_text_takes_no_pieces_from_before_a_tool_call_or_of_another_kind() -> None:
    tool, whole = {"type": "tool_started", "turn": "t"}, {"type": "message", "turn": "t", "text": "b"}
    made = condensed(shown(delta("a"), tool, delta("b"), whole))
    assert [each.event.get("text") for each in made] == ["a", None, "b"]
    thought = delta("hm", kind="thinking_delta")
    assert [each.event["text"] for each in condensed(shown(thought, delta("b"), whole))] == ["hm", "b"]


@given(
    st.lists(
        st.builds(delta, st.text(max_size=3), st.sampled_from("tu"), st.sampled_from(["text_delta", "thinking_delta"]))
    )
)
def test_joining_loses_no_letter_and_leaves_no_neighbours_of_one_kind(events: list[dict[str, Any]]) -> None:
    made = joined(shown(*events))
    assert "".join(each.event["text"] for each in made) == "".join(event["text"] for event in events)
    kinds = [(each.event["type"], each.event["turn"]) for each in made]
    assert all(one != other for one, other in zip(kinds, kinds[1:], strict=False))
