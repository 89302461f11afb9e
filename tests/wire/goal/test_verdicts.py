"""A verdict is read exactly, wherever the agent's words around it end."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import RemoteProtocolError
from treadle.wire.goal.verdicts import (
    FORMS,
    JudgeVerdict,
    LineComment,
    PlanDraft,
    ReviewVerdict,
    checked,
    in_words,
    is_test,
    schema_of,
)


@pytest.mark.parametrize(
    "text",
    [
        '{"verdict": "approve"}',
        'I read it {and liked it}.\n```json\n{"verdict": "approve", "comments": []}\n```\n',
        'First I thought {"verdict": "changes"}, but: {"verdict": "approve"}',
    ],
)
def test_the_object_at_the_end_counts(text: str) -> None:
    assert in_words(ReviewVerdict, text).verdict == "approve"


def test_comments_are_on_lines() -> None:
    found = in_words(
        ReviewVerdict, 'No. {"verdict": "changes", "comments": [{"path": "a.py", "line": 3, "text": "Why {x}?"}]}'
    )
    assert found.comments == (LineComment(path="a.py", line=3, text="Why {x}?"),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I approve.",
        '{"verdict": "maybe"}',
        '{"verdict": "approve", "score": 9}',
        '{"verdict": "changes"}',
        '{"verdict": "approve"} and that is all',
        '{"verdict": "approve"',
    ],
)
def test_what_is_no_verdict_is_none(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        in_words(ReviewVerdict, text)


def test_a_judge_wants_more_orders_or_says_met_but_not_both() -> None:
    found = in_words(
        JudgeVerdict, '{"met": false, "why": "no docs", "orders": [{"id": "docs", "task": "Write them."}]}'
    )
    assert found.orders[0].id == "docs" and not found.met
    with pytest.raises(RemoteProtocolError, match="wants more orders"):
        in_words(JudgeVerdict, '{"met": true, "why": "", "orders": [{"id": "docs", "task": "t"}]}')


@given(st.text('{}[]":, averdictpo\n`', max_size=60))
def test_any_text_is_a_verdict_or_refused(text: str) -> None:
    try:
        in_words(ReviewVerdict, text)
    except RemoteProtocolError:
        pass


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("tests/a.txt", True),
        ("shop/test_rows.py", True),
        ("shop/rows_test.go", True),
        ("web/rows.test.ts", True),
        ("web/__tests__/rows.js", True),
        ("spec/rows_spec.rb", True),
        ("conftest.py", True),
        ("shop/rows.py", False),
        ("shop/contest.py", False),
        ("latest/notes.md", False),
        ("testing.md", False),
    ],
)
def test_a_test_is_known_by_where_it_is_and_how_it_is_called(path: str, found: bool) -> None:
    assert is_test(path) is found


def test_a_reviewer_adds_tests_only_where_it_wants_changes_and_only_tests() -> None:
    added = {"path": "tests/test_a.py", "text": "assert 1", "command": "pytest"}
    found = in_words(ReviewVerdict, json.dumps({"verdict": "changes", "tests": [added]}))
    assert found.tests[0].command == "pytest"
    for wrong in (
        {"verdict": "approve", "tests": [added]},
        {"verdict": "changes", "tests": [{**added, "path": "shop/rows.py"}]},
        {"verdict": "changes", "tests": [{**added, "path": "/tests/test_a.py"}]},
        {"verdict": "changes", "tests": [{**added, "path": "tests/../test_a.py"}]},
        {"verdict": "changes", "tests": [{**added, "text": ""}]},
    ):
        with pytest.raises(RemoteProtocolError):
            in_words(ReviewVerdict, json.dumps(wrong))


ORDER = {"id": "one", "task": "t"}
PART = {"id": "shop", "goal": "g"}


@pytest.mark.parametrize(
    ("draft", "told"),
    [
        ({"orders": [ORDER]}, "done is missing"),
        ({"done": "true"}, "the plan has no orders"),
        ({"done": "true", "orders": [{**ORDER, "aftre": []}]}, "orders.0..aftre: there is no field"),
        ({"done": "true", "orders": [{**ORDER, "after": ["two"]}]}, "there is no order 'two'"),
        ({"done": "true", "orders": [{**ORDER, "after": ["one"]}]}, "orders.0..after: one names itself"),
        ({"done": "true", "parts": [PART]}, "1 parts"),
        ({"done": "true", "parts": [PART, {**PART, "id": "Web"}]}, "'Web' is no id"),
        ({"done": "true", "parts": [PART, {**PART, "id": "web", "after": ["shpo"]}]}, "there is no order 'shpo'"),
        ({"done": "true", "parts": [PART, {**PART, "id": "web"}], "orders": [ORDER]}, "both orders and parts"),
        (["done"], "must be a table"),
    ],
)
def test_all_that_is_wrong_with_a_planners_draft_is_told(draft: object, told: str) -> None:
    with pytest.raises(RemoteProtocolError, match=told):
        checked(PlanDraft, draft)


def test_a_draft_has_orders_or_parts() -> None:
    assert checked(PlanDraft, {"done": "true", "orders": [ORDER]}).orders[0].size == "m"
    web = {"id": "web", "goal": "g", "after": ["shop"]}
    assert checked(PlanDraft, {"done": "true", "parts": [PART, web]}).parts[1].after == ("shop",)


@pytest.mark.parametrize("kind", FORMS)
def test_each_answer_has_a_schema_of_an_object_that_names_all_that_it_uses(kind: str) -> None:
    schema = schema_of(kind)
    assert schema["type"] == "object" and schema["properties"]
    used = {part.partition('"')[0] for part in json.dumps(schema).split("#/$defs/")[1:]}
    assert used <= set(schema.get("$defs", {}))


def test_a_judge_may_want_nothing_more_and_parts_are_as_many_as_can_be_planned() -> None:
    assert checked(JudgeVerdict, {"met": True, "why": "all is there"}).orders == ()
    assert not checked(JudgeVerdict, {"met": False, "why": "no"}).met
    parts = [{"id": f"p{number}", "goal": "g"} for number in range(21)]
    assert len(checked(PlanDraft, {"done": "true", "parts": parts[:20]}).parts) == 20
    with pytest.raises(RemoteProtocolError, match="21 parts: there are 2 to 20"):
        checked(PlanDraft, {"done": "true", "parts": parts})
    long = {"id": "a" * 15, "goal": "g"}
    assert checked(PlanDraft, {"done": "true", "parts": [long, PART]}).parts[0].id == "a" * 15
    with pytest.raises(RemoteProtocolError, match="at most 15"):
        checked(PlanDraft, {"done": "true", "parts": [{**long, "id": "a" * 16}, PART]})
    with pytest.raises(RemoteProtocolError, match=r"^parts.1..id: the id 'shop' is used"):
        checked(PlanDraft, {"done": "true", "parts": [PART, PART]})
    with pytest.raises(RemoteProtocolError, match="^the answer: this must be a table, not a list$"):
        checked(PlanDraft, [])
    with pytest.raises(RemoteProtocolError, match="`line`|line"):
        checked(ReviewVerdict, {"verdict": "changes", "comments": [{"text": "x", "line": 1.5}]})


def test_changes_are_wanted_with_words_or_with_tests() -> None:
    blank = {"verdict": "changes", "comments": [{"text": "  "}]}
    with pytest.raises(RemoteProtocolError, match="does not say which"):
        checked(ReviewVerdict, blank)
    assert checked(ReviewVerdict, {"verdict": "approve", "comments": [{"text": "nice"}]}).comments
    with pytest.raises(RemoteProtocolError, match="does not end with a JSON object"):
        in_words(ReviewVerdict, "I approve.")
    with pytest.raises(RemoteProtocolError, match="something that is not JSON"):
        in_words(ReviewVerdict, "I approve {it}")
    with pytest.raises(RemoteProtocolError, match="is not the path of a test"):
        checked(ReviewVerdict, {"verdict": "changes", "tests": [{"path": "tests//a", "text": "x"}]})
    for path in ("test.py", "a/tests.rs", "a_spec.rb", "a-test.js", "a-spec.ts", "b/specs/x"):
        assert is_test(path), path
    assert not is_test("a/spec.yaml")
