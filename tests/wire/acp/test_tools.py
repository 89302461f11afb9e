"""Tool calls and counts put together from an agent's messages, which are as recorded agents send them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.events import CommandRun, FileChanged, Usage
from treadle.wire.acp.tools import DIFF_LINES, ToolRecord, UsageMeter, read_counts, unified


def told(*pieces: dict[str, Any], call: str = "c1") -> ToolRecord:
    record = ToolRecord(call)
    for piece in pieces:
        record.merge(piece)
    return record


def text(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


@pytest.mark.parametrize(
    ("pieces", "call", "name"),
    [
        ([{"name": "Bash", "title": "Terminal"}], "c1", "Bash"),
        ([{"_meta": {"claudeCode": {"toolName": "Edit"}}}], "c1", "Edit"),
        ([{"_meta": {"toolName": "run_shell_command"}, "title": "Shell"}], "c1", "run_shell_command"),
        ([{"title": "touch a", "kind": "execute"}], "run_shell_command__fc-51", "run_shell_command"),
        ([{"title": "bash", "kind": "execute"}, {"title": "touch a"}], "c1", "bash"),
        ([{"title": "scripted", "kind": "execute", "rawInput": {"description": "scripted"}}], "c1", "bash"),
        (
            [{"title": "x", "rawInput": {"description": "x"}, "kind": "execute"}, {"rawInput": {"command": "ls"}}],
            "c1",
            "bash",
        ),
        ([{"title": "Editing a file", "kind": "edit"}], "c1", "edit"),
        ([{}], "c1", "tool"),
    ],
)
def test_its_name_is_found_wherever_the_agent_puts_it(pieces: list[Any], call: str, name: str) -> None:
    assert told(*pieces, call=call).tool == name


def test_what_is_not_told_again_is_kept() -> None:
    record = told(
        {"kind": "edit", "rawInput": {}, "status": "pending"},
        {"rawInput": {"path": "a"}, "locations": [{"path": "/w/a"}]},
        {"status": "completed", "locations": [], "rawInput": None},
    )
    assert (record.kind, record.args, record.paths, record.closed) == ("write", {"path": "a"}, ["/w/a"], True)


def test_arguments_that_come_as_text_are_arguments_until_it_has_ended() -> None:
    record = told({"status": "in_progress", "content": [text('{"command": "ls"')]})
    assert record.args is None
    record.merge({"status": "in_progress", "content": [text('{"command": "ls"}')]})
    assert record.args == {"command": "ls"}
    assert told({"status": "completed", "content": [text('{"a": 1}')]}).args is None
    assert told({"status": "in_progress", "content": [text("{broken")]}).args is None


def test_where_a_command_runs_is_no_path_that_it_is_about() -> None:
    assert told({"kind": "execute", "locations": [{"path": "/w"}]}).paths == []


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ({"rawOutput": {"exitCode": 3}}, 3),
        ({"rawOutput": {"metadata": {"exit": 0}}}, 0),
        ({"_meta": {"terminal_exit": {"exit_code": 2}}}, 2),
        ({"rawOutput": "text"}, None),
        ({"rawOutput": {"exitCode": True}}, None),
    ],
)
def test_the_exit_code_is_found_or_unknown(pieces: dict[str, Any], code: int | None) -> None:
    assert told(pieces).exit_code == code


@pytest.mark.parametrize(
    ("piece", "result"),
    [
        ({"content": [text("out")], "rawOutput": "raw"}, "out"),
        ({"rawOutput": {"output": "raw"}}, "raw"),
        ({"rawOutput": "raw"}, "raw"),
        ({"rawOutput": {"other": 1}}, ""),
    ],
)
def test_its_result_is_the_text_it_shows_or_its_raw_output(piece: dict[str, Any], result: str) -> None:
    assert told(piece).result == result


def test_output_that_comes_in_pieces_is_new_once() -> None:
    record = told({"_meta": {"terminal_output": {"data": "one "}}})
    assert record.new_output() == "one " and record.new_output() == ""
    record.merge({"_meta": {"terminal_output": {"data": "two"}}})
    assert record.new_output() == "two" and record.result == "one two"


def test_terminals_of_ours_are_named_in_its_content() -> None:
    content = [{"type": "terminal", "terminalId": "t1"}, {"type": "terminal"}, text("x")]
    assert told({"content": content}).terminals == ["t1"]


def test_a_diff_is_a_changed_file_also_when_the_end_does_not_repeat_it() -> None:
    diff = {"type": "diff", "path": "/w/a", "oldText": "one\n", "newText": "two\n"}
    record = told({"kind": "edit", "content": [diff]}, {"status": "completed", "content": [text("done")]})
    [change] = record.effects(None)
    assert isinstance(change, FileChanged)
    assert (change.path, change.change, change.call) == ("/w/a", "modified", "c1")
    assert change.diff == "--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-one\n+two\n"


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [(None, "x", "added"), ("", "x", "added"), ("x", "y", "modified"), ("x", None, "deleted")],
)
def test_what_became_of_a_file_is_told_by_its_texts(old: str | None, new: str | None, change: str) -> None:
    diff = {"type": "diff", "path": "a", "oldText": old, "newText": new}
    [effect] = told({"kind": "edit", "status": "completed", "content": [diff]}).effects(None)
    assert isinstance(effect, FileChanged) and effect.change == change


def test_a_failed_edit_has_changed_nothing_and_a_command_without_exit_code_is_not_told() -> None:
    diff = {"type": "diff", "path": "a", "newText": "x"}
    assert told({"kind": "edit", "status": "failed", "content": [diff]}).effects(None) == []
    assert told({"kind": "execute", "status": "completed"}).effects("ls") == []


def test_a_command_with_its_exit_code_is_told() -> None:
    record = told({"kind": "execute", "status": "completed", "rawOutput": {"exitCode": 1, "output": "no"}})
    [ran] = record.effects("make")
    assert isinstance(ran, CommandRun) and (ran.command, ran.exit_code, ran.output) == ("make", 1, "no")


def test_a_diff_says_where_a_last_newline_is_missing_and_is_left_out_when_it_would_take_long() -> None:
    assert unified("a", "x", "y").count("\\ No newline") == 2
    assert unified("a", "x\n" * DIFF_LINES, "y\n") == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "content", "text", "path", "terminalId"]), inner, max_size=3)
    ),
    max_leaves=6,
)

FIELDS = ("kind", "status", "title", "rawInput", "rawOutput", "content", "locations", "_meta", "name")


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON), max_size=4))
def test_whatever_is_told_can_be_read(pieces: list[dict[str, Any]]) -> None:
    record = told(*pieces)
    assert isinstance(record.tool, str) and isinstance(record.result, str)
    assert all(isinstance(path, str) for path in record.paths) and isinstance(record.effects("x"), list)
    assert record.exit_code is None or isinstance(record.exit_code, int)
    assert isinstance(record.new_output(), str) and isinstance(record.terminals, list)


def test_texts_of_exactly_the_most_lines_are_compared() -> None:
    same = "x\n" * (DIFF_LINES // 2)
    assert unified("a", same, same.replace("x", "y", 1)) != "" and unified("a", same, same + "x\n") == ""
    assert unified("/w/a", "x\n", "y\n").startswith("--- a/w/a\n+++ b/w/a\n")


@pytest.mark.parametrize(
    ("meta", "parent"),
    [
        ({"parentToolCallId": "p"}, "p"),
        ({"claudeCode": {"parentToolUseId": "q"}}, "q"),
        ({"parentToolCallId": "p", "claudeCode": {"parentToolUseId": "q"}}, "p"),
        ({"parentToolCallId": 7}, None),
        ({"parentToolCallId": "c1"}, None),
        ({"claudeCode": "odd"}, None),
        ("odd", None),
    ],
)
def test_whose_call_it_is_is_found_where_two_agents_put_it(meta: Any, parent: str | None) -> None:
    record = told({"_meta": meta})
    assert record.parent == parent
    record.merge({"title": "later"})
    assert record.parent == parent and record.title == "later"


def test_a_record_begins_with_nothing_and_keeps_what_is_empty_later() -> None:
    fresh = ToolRecord("c")
    assert not (fresh.started or fresh.ended or fresh.denied or fresh.permitted) and fresh.status == "pending"
    record = told(
        {"title": "one", "rawOutput": "o", "_meta": {"a": 1}}, {"title": "", "rawOutput": None, "_meta": {"b": 2}}
    )
    assert (record.title, record.raw_output, record.meta) == ("one", "o", {"a": 1, "b": 2})
    assert told({"kind": "think"}).kind == "other" and told({"kind": "search"}).kind == "read"
    assert told({"kind": "read", "locations": [{"path": 7}, "x", {"path": "/a"}, {"path": "/a"}]}).paths == ["/a"]
    assert told({"content": [text("{}")]}).args == {} and told({"content": [text("[1]")]}).args is None
    known = told({"rawInput": {"a": 1}, "content": [text('{"b": 2}')]})
    assert known.args == {"a": 1}


def test_what_an_edit_or_a_command_did_is_told_of_that_kind_only() -> None:
    diff = {"type": "diff", "path": "a", "newText": "x"}
    assert told({"kind": "read", "status": "completed", "content": [diff]}).effects(None) == []
    ran = {"status": "completed", "rawOutput": {"exit_code": 0}}
    assert told({"kind": "read", **ran}).effects("ls") == [] and told({"kind": "execute", **ran}).effects(None) == []
    assert len(told({"kind": "execute", **ran}).effects("ls")) == 1
    assert told({"rawOutput": {"text": "t", "message": "m"}}).result == "t" and told({"rawOutput": 7}).result == ""
    assert told({"_meta": {"terminal_output": {"data": 7}}}).new_output() == ""


CLAUDE = {"inputTokens": 120, "outputTokens": 25, "cachedReadTokens": 50, "cachedWriteTokens": 10, "totalTokens": 205}

COPILOT = {"inputTokens": 180, "outputTokens": 25, "totalTokens": 205, "cachedReadTokens": 50, "cachedWriteTokens": 0}


def buckets(usage: Usage | None) -> tuple[int, ...]:
    assert usage is not None
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def test_cached_tokens_are_not_counted_twice_whichever_way_they_are_told() -> None:
    assert buckets(read_counts(CLAUDE)) == (120, 25, 50, 10)
    assert buckets(read_counts(COPILOT)) == (130, 25, 50, 0)


@pytest.mark.parametrize(
    "told", [None, 3, {}, {"inputTokens": True}, {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}]
)
def test_no_counts_are_no_usage(told: Any) -> None:
    assert read_counts(told) is None


def test_counts_of_a_turn_are_taken_as_they_are() -> None:
    meter = UsageMeter("turn")
    for _ in range(2):
        assert [buckets(usage) for usage in meter.turn({"usage": CLAUDE})] == [(120, 25, 50, 10)]


def test_of_counts_over_the_session_each_turn_has_what_it_added() -> None:
    meter = UsageMeter("session")
    twice = {name: 2 * count for name, count in COPILOT.items()}
    assert [buckets(usage) for usage in meter.turn({"usage": COPILOT})] == [(130, 25, 50, 0)]
    assert [buckets(usage) for usage in meter.turn({"usage": twice})] == [(130, 25, 50, 0)]
    assert meter.turn({"usage": twice}) == []


def test_an_agent_that_counts_from_nothing_each_time_shows_it_by_counting_less() -> None:
    meter = UsageMeter("session")
    meter.turn({"usage": {"inputTokens": 500, "outputTokens": 50, "totalTokens": 550}})
    assert [buckets(usage) for usage in meter.turn({"usage": CLAUDE})] == [(120, 25, 50, 10)]


def test_counts_along_the_way_are_the_turns_own() -> None:
    meter = UsageMeter("turn")
    step = meter.step({"inputTokens": 180, "outputTokens": 25, "totalTokens": 205, "cachedReadTokens": 50}, 606)
    assert buckets(step) == (130, 25, 50, 0) and step is not None and step.duration_ms == 606
    assert meter.turn({"usage": CLAUDE}) == []


def test_counts_by_model_are_one_usage_each() -> None:
    models = [
        {"model": "small", "token_count": {"input_tokens": 180, "output_tokens": 25}},
        {"model": "big", "token_count": {"input_tokens": 10, "output_tokens": 1}},
        {"model": "none", "token_count": None},
        "odd",
    ]
    found = UsageMeter("turn").turn({"stopReason": "end_turn", "_meta": {"quota": {"model_usage": models}}})
    assert [(usage.model, *buckets(usage)) for usage in found] == [("small", 180, 25, 0, 0), ("big", 10, 1, 0, 0)]


def test_money_is_what_the_session_cost_more_than_before() -> None:
    meter = UsageMeter("turn")
    meter.cost({"amount": 0.5, "currency": "USD"})
    assert meter.turn({"usage": CLAUDE})[0].cost_usd == 0.5
    meter.cost({"amount": 0.75, "currency": "USD"})
    assert meter.turn({"usage": CLAUDE})[0].cost_usd == 0.25


@pytest.mark.parametrize(
    "told",
    [None, {"amount": 1, "currency": "EUR"}, {"amount": "1", "currency": "USD"}, {"amount": True, "currency": "USD"}],
)
def test_money_that_is_not_told_in_dollars_is_unknown(told: Any) -> None:
    meter = UsageMeter("turn")
    meter.cost(told)
    assert meter.turn({"usage": CLAUDE})[0].cost_usd is None


def test_what_an_earlier_process_paid_is_not_paid_again() -> None:
    meter = UsageMeter("turn")
    meter.cost({"amount": 0.5, "currency": "USD"})
    meter.resumed()
    meter.cost({"amount": 0.75, "currency": "USD"})
    assert meter.turn({"usage": CLAUDE})[0].cost_usd == 0.25


def test_an_agent_without_counts_gives_none() -> None:
    assert UsageMeter("none").turn({"usage": CLAUDE}) == []


@given(st.dictionaries(st.sampled_from(list(CLAUDE)), st.integers(0, 1000)))
def test_buckets_are_never_negative(told: dict[str, int]) -> None:
    usage = read_counts(told)
    assert usage is None or min(buckets(usage)) >= 0


def test_how_full_the_conversation_is_needs_both_numbers() -> None:
    meter = UsageMeter()
    for told in ({"used": 5}, {"size": 9}, {"used": 0, "size": 9}):
        meter.updated(told)
        assert meter.context == (None, None)
    meter.updated({"used": 5, "size": 9, "cost": {"amount": 2, "currency": "USD"}})
    assert meter.context == (5, 9) and meter.turn({"usage": CLAUDE})[0].cost_usd == 2.0


def test_a_session_whose_cost_so_far_is_not_known_has_no_price_for_its_next_turn() -> None:
    meter = UsageMeter("turn")
    meter.resumed()
    prices = []
    for spent in (0.5, 0.75, 0.25, 0.75):
        meter.cost({"amount": spent, "currency": "USD"})
        prices.append(meter.turn({"usage": CLAUDE})[0].cost_usd)
    assert prices == [None, 0.25, None, None], "0.5 began before us, 0.25 is less than before, 0.75 was billed"
    free = UsageMeter("turn")
    free.cost({"amount": 0, "currency": "USD"})
    assert free.turn({"usage": CLAUDE})[0].cost_usd is None


def test_a_step_without_counts_leaves_those_of_the_answer() -> None:
    meter = UsageMeter("turn")
    meter.model = "m"
    assert meter.step(None, 5) is None and meter.turn({"usage": CLAUDE})[0].model == "m"
    odd = meter.step({"input_tokens": 1, "cachedInputTokens": 2, "reasoningOutputTokens": 3}, True)
    assert odd is not None and (odd.duration_ms, odd.reasoning_tokens, odd.model) == (0, 3, "m")
    assert buckets(odd) == (1, 0, 2, 0) and meter.turn("no object") == [] and meter.turn({"usage": CLAUDE}) == []


def test_counts_of_which_one_fell_began_anew() -> None:
    meter = UsageMeter()
    meter.turn({"usage": {"inputTokens": 5, "outputTokens": 5}})
    assert [buckets(usage) for usage in meter.turn({"usage": {"inputTokens": 9, "outputTokens": 4}})] == [(9, 4, 0, 0)]
    assert [buckets(usage) for usage in meter.turn({"usage": {"inputTokens": 9, "outputTokens": 6}})] == [(0, 2, 0, 0)]
    assert buckets(read_counts({"cachedReadTokens": 7, "totalTokens": 0})) == (0, 0, 7, 0)
    both = {"inputTokens": 9, "outputTokens": 1, "cachedReadTokens": 2, "cachedWriteTokens": 3, "totalTokens": 10}
    assert buckets(read_counts(both)) == (4, 1, 2, 3)
