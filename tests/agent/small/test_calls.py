"""What a small model may write, and how what it wrote is read."""

import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent import toolbox
from treadle.agent.providers.known import SmallProfile
from treadle.agent.providers.small import CAPS, read, reply_schema

TOOLS = toolbox.builtin(("read_file", "edit_file", "write_file", "bash")).schemas()


def fits(reply: Any, profile: SmallProfile) -> bool:
    return not list(jsonschema.Draft202012Validator(reply_schema(TOOLS, profile)).iter_errors(reply))


def test_one_call_with_what_it_requires_fits() -> None:
    assert fits({"tool": "read_file", "file_path": "a.py"}, SmallProfile())
    assert fits({"tool": "answer", "text": "done"}, SmallProfile())
    assert not fits({"tool": "read_file"}, SmallProfile())
    assert not fits({"tool": "skill", "name": "x"}, SmallProfile())
    assert not fits({"tool": "read_file", "file_path": "a.py", "offset": 3}, SmallProfile())


def test_caps_keep_arguments_short() -> None:
    long = {"tool": "bash", "command": "x" * (CAPS["command"] + 1)}
    assert not fits(long, SmallProfile())
    assert fits(long, SmallProfile(caps=False))


@given(st.text())
def test_any_text_is_a_call_or_an_answer(text: str) -> None:
    written = read(text)
    assert (written.answer is None) == bool(written.calls)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.dictionaries(st.sampled_from(["tool", "calls", "text", "x"]), inner | st.lists(inner)),
        max_leaves=6,
    )
)
def test_any_json_is_read_without_failing(value: Any) -> None:
    read(json.dumps(value))
