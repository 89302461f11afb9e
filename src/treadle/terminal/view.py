"""The screen that a program has drawn, as characters. Output is applied to it only when it is looked at."""

from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.terminal.grid import Grid
    from treadle.terminal.sequences import Whole

UNREAD_MAX = 64 * 1024
"""How much output is kept for the next look, more than any screen holds."""


class CharacterView:
    def __init__(self, cols: int, rows: int) -> None:
        self.size = (cols, rows)
        self.total = 0  # bytes of output so far
        self.to_cursor = False
        """Whether lines below the cursor do not count, as for a program that only writes on at the end."""
        self._grid: Grid | None = None
        self._whole: Whole | None = None
        self._unread: list[bytes] = []
        self._unread_size = 0

    def output(self, data: bytes, *, matters: bool) -> None:
        """Take output. If too much is waiting, it is drawn; where the screen does not `matter`, only the end is."""
        self._unread.append(data)
        self._unread_size += len(data)
        self.total += len(data)
        if self._unread_size <= UNREAD_MAX:
            return
        if matters:
            self.grid()
            return
        self._grid = None
        while self._unread_size > UNREAD_MAX and len(self._unread) > 1:
            self._unread_size -= len(self._unread.pop(0))

    def resize(self, cols: int, rows: int) -> None:
        if self._grid:
            self.grid().resize(cols, rows)
        self.size = (cols, rows)

    @property
    def drawn(self) -> bool:
        """Whether there is anything on the screen: a blank one need not be kept."""
        return self._grid is not None or self._unread_size > 0

    def grid(self) -> "Grid":
        from treadle.terminal.grid import Grid
        from treadle.terminal.sequences import Whole

        if self._grid is None or self._whole is None:
            self._grid, self._whole = Grid(*self.size), Whole()
        data, self._unread, self._unread_size = b"".join(self._unread), [], 0
        if data:
            self._grid.feed(self._whole.feed(data))
        return self._grid

    def cursor(self) -> tuple[int, int]:
        """Its column and row, from 0."""
        grid = self.grid()
        return min(grid.x, grid.cols - 1), grid.y

    def lines(self) -> list[str]:
        if not self.drawn:
            return []
        grid = self.grid()
        return grid.lines()[: grid.y + 1] if self.to_cursor else grid.lines()
