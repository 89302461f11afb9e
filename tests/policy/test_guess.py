"""What unknown tools touch."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from treadle.policy.guess import access_of


def test_guessing_finds_what_a_strange_tool_touches() -> None:
    assert access_of("Bash", {"command": "ls"}).command == "ls"
    assert access_of("str_replace_editor", {"path": "a.py"}).kind == "write"
    assert access_of("MultiEdit", {"edits": [{"file_path": "a"}, {"file_path": "b"}]}).paths == ("a", "b")
    assert access_of("WebFetch", {"url": "https://x"}).url == "https://x"
    assert access_of("mystery", {"cmd": "rm -r x"}).kind == "execute"
    assert access_of("shell", {"command": ["bash", "-lc", "cat .env"]}).command == "bash -lc 'cat .env'"
    assert access_of("tool", {"files": [{"path": "a"}, {"path": "b"}]}).paths == ("a", "b")
    assert access_of("todo", {"items": [1, 2]}).kind == "other"
    assert access_of("x", None).paths == () and access_of("x", [1, "a"]).paths == ()


def test_an_editor_with_commands_of_its_own_is_told_by_them() -> None:
    looked = access_of("str_replace_based_edit_tool", {"command": "view", "path": "a.py"})
    assert (looked.kind, looked.command) == ("read", None)
    assert access_of("text_editor", {"command": "str_replace", "path": "a.py"}).kind == "write"
    run = access_of("bash", {"command": "view", "workdir": "/x"})
    assert (run.kind, run.command) == ("execute", "view")


@given(
    st.text(), st.recursive(st.none() | st.text(), lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside))
)
def test_guessing_never_fails(name: str, args: object) -> None:
    access_of(name, args)


KEYS = st.sampled_from(["path", "file_path", "command", "cmd", "url", "limit", "old_string", "target_dir", "script"])
VALUES = st.one_of(
    st.sampled_from(["a/b.py", "create", "ls -la", "https://a.com", ""]), st.integers(), st.none(), st.booleans()
)


@given(st.sampled_from(["read_file", "Bash", "editor", "x", "WebFetch", "str_replace"]), st.dictionaries(KEYS, VALUES))
def test_a_simple_call_is_guessed_as_a_nested_one_is(name: str, args: dict[str, Any]) -> None:
    """An empty object among the arguments makes it a nested call without adding anything."""
    simple, nested = access_of(name, args), access_of(name, {**args, "nested": {}})
    assert replace(nested, args=args) == simple
