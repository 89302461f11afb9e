"""What strange tools touch."""

from hypothesis import given
from hypothesis import strategies as st

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
