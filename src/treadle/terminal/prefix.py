"""The keys that `attach` takes for itself: one that detaches, and a prefix after which the next key is a command."""

DETACH, HELP, NEXT, SWITCH, LAST, RENAME, KILL, SCROLL, SEARCH, BAR = "d", "?", "n", "s", "l", "r", "k", "[", "/", "b"
COMMANDS = {
    NEXT: "go to the terminal that has waited for a person the longest",
    SWITCH: "choose another terminal from the list",
    LAST: "go back to the terminal before this one",
    SCROLL: "look at what has scrolled away, and search it",
    SEARCH: "the same, and begin with a search",
    BAR: "show or hide the line with its state",
    RENAME: "give it another id",
    KILL: "end its program and all that belongs to it",
    DETACH: "detach; the program goes on",
    HELP: "this list",
}
"""What each key after the prefix does."""
SAME = {"h": HELP, "w": SWITCH, "x": KILL, "p": LAST}
CHANGES = frozenset((RENAME, KILL))


def key_forms(key: int) -> frozenset[bytes]:
    """The key as terminals send it: plain, or in two encodings for programs that want to tell all keys apart."""
    if not key:
        return frozenset()
    forms = {bytes((key,))}
    if key < 0x20:
        code = key + 0x40 if key + 0x40 not in range(0x41, 0x5B) else key + 0x60
        forms |= {f"\x1b[{code};5u".encode(), f"\x1b[{code};5:1u".encode(), f"\x1b[27;5;{code}~".encode()}
    return frozenset(forms)


def key_name(key: int) -> str:
    """The key as people write it: Ctrl-]."""
    return f"Ctrl-{chr(key + 0x40)}" if 0 < key < 0x20 else chr(key)


class Prefix:
    """Finds commands in what is typed. Like the detach key, the prefix counts only at the beginning of a read and with
    at most one key after it: in a paste it is content."""

    def __init__(self, key: int) -> None:
        self._forms = key_forms(key)
        self.pressed = False

    def feed(self, data: bytes) -> tuple[bytes, str]:
        """What is for the program, and the command if there is one."""
        if not self.pressed:
            form = next((form for form in self._forms if data.startswith(form)), b"")
            if not form or _key(data[len(form) :]) is None and data != form:
                return data, ""
            self.pressed = True
            data = data[len(form) :]
            if not data:
                return b"", ""
        if data in self._forms:  # twice: the program gets it once
            self.pressed = False
            return data, ""
        key = _key(data)
        if key is None:  # a mouse's or a terminal's report, not a key
            return data, ""
        if not key:
            return b"", ""
        self.pressed = False
        return b"", SAME.get(key, key if key in COMMANDS else HELP)


def _key(data: bytes) -> str | None:
    """The character of one key; empty for a key that is released; None if it is anything else."""
    if data[:1] != b"\x1b":
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None
        return text if len(text) == 1 else None
    if data == b"\x1b":
        return data.decode()
    if data[:2] != b"\x1b[" or data[-1:] != b"u" or data.count(b"\x1b") > 1:
        return None
    codes, _, rest = data[2:-1].decode("latin-1").partition(";")
    if rest.partition(";")[0].partition(":")[2] == "3":
        return ""
    code, _, shifted = codes.partition(":")
    number = shifted.partition(":")[0] or code
    return chr(int(number)) if number.isdigit() and int(number) < 0x110000 else None
