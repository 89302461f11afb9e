"""Codex's lists."""

from treadle.session import OfferedModel, StoredSession
from treadle.wire.codex.threads import listed_thread, offered_models


def test_a_thread_has_the_name_that_it_was_given_or_its_first_prompt() -> None:
    told = {"id": "t", "cwd": "/w", "preview": "hello", "name": None, "updatedAt": 5}
    assert listed_thread(told) == StoredSession(id="t", cwd="/w", title="hello", updated=5.0)
    assert listed_thread({**told, "name": "Mine", "updatedAt": None}).title == "Mine"


def test_hidden_models_and_what_is_no_model_are_left_out() -> None:
    told = [{"model": "m", "displayName": "M", "description": "d"}, {"model": "h", "hidden": True}, {}, 3]
    assert list(offered_models(told)) == [OfferedModel(id="m", name="M", description="d")]
    assert list(offered_models(None)) == []
