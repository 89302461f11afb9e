import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.providers.small import undefined


def test_half_of_a_rename_is_seen() -> None:
    assert undefined("def circle_area(r):\n    return r\n\n\ndef volume(r, h):\n    return area(r) * h\n") == {
        "area": 6
    }


@pytest.mark.parametrize(
    "text",
    [
        "import os.path as p, sys\nfrom a import b as c\nprint(p, sys, c)",
        "from a import *\nprint(anything)",
        "def f(a, *b, c=1, **d):\n    return a, b, c, d",
        "for i, (j, k) in x():\n    print(i, j, k)\ndef x(): ...",
        "try:\n    pass\nexcept ValueError as error:\n    print(error)",
        "with open('x') as file:\n    print(file, __file__)",
        "print([n for n in range(3)], (m := 1), m)",
        "match 1:\n    case [a, *rest]:\n        print(a, rest)",
        "match 1:\n    case {'k': v, **others} as whole:\n        print(v, others, whole)",
        "def f():\n    global late\n    print(late)",
        "this is not Python (",
        "",
    ],
)
def test_what_is_bound_in_any_way_is_defined(text: str) -> None:
    assert undefined(text) == {}


@given(st.text())
def test_any_text_is_looked_at_without_failing(text: str) -> None:
    undefined(text)
