import pytest

from treadle.terminal.screen import colour, palette


@pytest.mark.parametrize(
    ("number", "value"),
    [(0, (0, 0, 0)), (15, (255, 255, 255)), (16, (0, 0, 0)), (196, (255, 0, 0)), (231, (255,) * 3), (244, (128,) * 3)],
)
def test_the_palette_is_the_usual_one(number: int, value: tuple[int, int, int]) -> None:
    assert palette(number) == value


def test_a_colour_is_none_a_number_or_three() -> None:
    assert colour(None) is None
    assert colour(("palette", 196)) == colour(("rgb", (255, 0, 0))) == (255, 0, 0)
