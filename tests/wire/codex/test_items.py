"""Threads, turns and items have every field that the schema requires."""

from treadle.events import ErrorInfo, Usage
from treadle.session import ModelMenu, OfferedModel, StoredSession
from treadle.wire.codex import items


def test_errors_have_the_words_of_codex() -> None:
    for code, word in (
        ("context_overflow", "contextWindowExceeded"),
        ("rate_limited", "rateLimitExceeded"),
        ("x", "other"),
    ):
        assert items.turn_error(ErrorInfo(code=code, message="m"))["codexErrorInfo"] == word


def test_input_tokens_include_those_of_a_cache() -> None:
    used = items.tokens(Usage(input_tokens=1, cache_read_tokens=2, cache_write_tokens=3, output_tokens=4))
    assert (used["inputTokens"], used["cachedInputTokens"], used["totalTokens"]) == (6, 2, 10)


def test_the_model_in_use_is_the_default_also_when_it_is_not_listed() -> None:
    menu = ModelMenu(current="own", offered=(OfferedModel(id="a", name="A", description="d"),))
    own, other = items.models(menu, ["default", "low"], images=False)
    assert (own["model"], own["isDefault"], own["displayName"]) == ("own", True, "own")
    assert (other["displayName"], other["isDefault"], other["inputModalities"]) == ("A", False, ["text"])
    assert own["defaultReasoningEffort"] == "default" and len(own["supportedReasoningEfforts"]) == 2
    assert [one["model"] for one in items.models(ModelMenu(current=""), ["x"], images=True)] == []


def test_a_thread_that_is_only_listed_has_no_turns() -> None:
    kept = StoredSession(id="t", cwd="/w", title="hello", updated=5.5)
    shown = items.thread(kept, status="notLoaded", model=None, version="1")
    assert (shown["preview"], shown["updatedAt"], shown["turns"], shown["status"]) == (
        "hello",
        5,
        [],
        {"type": "notLoaded"},
    )
    assert items.turn("t", "completed")["itemsView"] == "notLoaded" and items.step_status("pending") == "pending"
