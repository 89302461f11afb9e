"""Removes secrets from outgoing text: logs, receipts, recordings, HTTP. Not from session history, which resume needs.

A Redactor knows the shapes of common keys, and the exact values it is given. Its stream gives, however a text is cut
into chunks, exactly what `text` gives for the whole: it holds back what could still become a secret, at most to the end
of the line, and of a long line at most twice the longest secret. Imports nothing of ours and nothing
heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from treadle.light import Any

MARK = "[redacted]"
SHORTEST = 6
"""Shorter values are not redacted, because they would also match ordinary words."""

_LONGEST = 4096
_TOKEN = r"[A-Za-z0-9_\-]"
_ASSIGNED = ("key=", "token=", "secret=", "password=", "passwd=")
_NAMED = ("key:", "token:", "secret:", "password:", "passwd:")
_QUOTED = ('key"', 'token"', 'secret"', 'password"', 'passwd"')

SHAPES: list[tuple[str, tuple[str, ...]]] = [
    (rf"\bsk-{_TOKEN}{{16,512}}", ("sk-",)),
    (r"\bgh[pousr]_[A-Za-z0-9]{30,255}", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    (r"\bgithub_pat_[A-Za-z0-9_]{22,255}", ("github_pat_",)),
    (rf"\bglpat-{_TOKEN}{{20,255}}", ("glpat-",)),
    (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", ("akia", "asia")),
    (rf"\bAIza{_TOKEN}{{35}}", ("aiza",)),
    (r"\bxox[abeprs]-[A-Za-z0-9-]{10,255}", ("xox",)),
    (r"\b(?:npm|hf)_[A-Za-z0-9]{30,255}", ("npm_", "hf_")),
    (rf"\bpypi-{_TOKEN}{{40,512}}", ("pypi-",)),
    (rf"\beyJ{_TOKEN}{{8,1024}}\.eyJ{_TOKEN}{{2,1024}}\.{_TOKEN}{{8,1024}}", (".eyj",)),
    (r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}", ("k_live_", "k_test_")),
    (rf"\bya29\.{_TOKEN}{{20,512}}", ("ya29.",)),
    (rf"\bhv[sb]\.{_TOKEN}{{20,512}}", ("hvs.", "hvb.")),
    (rf"\b[0-9]{{8,10}}:AA{_TOKEN}{{32,34}}", (":aa",)),
    (rf"\bSG\.{_TOKEN}{{16,64}}\.{_TOKEN}{{16,64}}", ("sg.",)),
    (rf"\bGOCSPX-{_TOKEN}{{20,64}}", ("gocspx-",)),
    (r"\bdo[opr]_v1_[a-f0-9]{64}", ("_v1_",)),
    (r"\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}", ("shp",)),
    (r"\bdapi[a-f0-9]{32}", ("dapi",)),
    (r"\b(?:gsk|lin_api|r8)_[A-Za-z0-9]{32,128}", ("gsk_", "lin_api_", "r8_")),
    (r"\bxai-[A-Za-z0-9]{40,128}", ("xai-",)),
    (r"\bxapp-[A-Za-z0-9-]{10,255}", ("xapp-",)),
    (r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}", ("age-secret-key-1",)),
    (r"(?P<slack>\bhooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/]{20,128}", ("hooks.slack.com/",)),
    (rf"(?P<discord>\bdiscord(?:app)?\.com/api/webhooks/[0-9]{{5,30}}/){_TOKEN}{{40,128}}", ("/api/webhooks/",)),
    (r"(?P<azure>\b(?ai:AccountKey|SharedAccessKey)=)[A-Za-z0-9+/]{20,128}={0,2}", ("accountkey=", "sharedaccesskey=")),
    (r"(?P<sas>[?&;](?ai:sig)=)[A-Za-z0-9%+/]{40,128}={0,2}", ("sig=",)),
    # A line of a PEM or OpenSSH key without its frame, as `tail` or a view with line numbers shows it; digests differ.
    (
        r"(?<![A-Za-z0-9+/=_\-])(?=[A-Za-z+/]{0,63}[0-9])(?=[A-Z0-9+/]{0,63}[a-z])(?=[a-z0-9+/]{0,63}[A-Z])"
        r"(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70}|[A-Za-z0-9+/]{76})(?![A-Za-z0-9+/=])",
        (),
    ),
    (r"(?P<url>\b[a-z][a-z0-9+.\-]{1,20}://[^\s:/@\"'\[]{0,256}:)[^\s@/\"'\[]{3,512}@", ("://",)),
    (
        r"(?P<aws>\b(?ai:aws_secret_access_key)[ \t]{0,8}[:=][ \t]{0,8}[\"']?)[A-Za-z0-9/+=]{20,128}",
        ("aws_secret_access_key",),
    ),
    (
        r"(?P<query>\b(?ai:access_token|refresh_token|id_token|auth_token|api_?key|client_secret|password|passwd)="
        r"[\"']?)[^\s\"'&$\[{<(][^\s\"'&]{5,1024}",
        _ASSIGNED,
    ),
    (
        r"(?P<colon>\b(?ai:password|passwd|api[_-]?key|access_token|client_secret):[ \t]{1,8}[\"']?)"
        r"[^\s\"'\[{<(][^\s\"']{5,1024}",
        _NAMED,
    ),
    (r"(?P<bearer>\b(?ai:bearer)[ \t]{1,8})[A-Za-z0-9._~+/=\-]{8,2048}", ("bearer",)),
    (
        r"(?P<header>\b(?ai:authorization|x-api-key|api-key):[ \t]{0,8}(?:(?ai:basic)[ \t]{1,8})?)"
        r"[A-Za-z0-9._~+/=\-]{8,2048}",
        ("authorization:", "api-key:"),
    ),
    (
        r"(?P<variable>\b[A-Z0-9_]{0,64}(?:API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|TOKEN|SECRET|PASSWORD|PASSWD)="
        r"[\"']?)[^\s\"'$\[{<(][^\s\"']{5,1024}",
        _ASSIGNED,
    ),
    (
        r"(?P<field>\"[\w-]{0,64}(?ai:api[_-]?key|token|secret|password|passwd)\"[ \t]{0,8}:[ \t]{0,8}\")"
        r"[^\"\n\[][^\"\n]{5,1024}",
        _QUOTED,
    ),
]
"""Each shape with a few lower-case words, one of which is in every text that it matches. Searching for the words
takes a hundredth of the time of the expressions, and nearly every text has none of them. A shape without words is tried
where there is a `_RUN`."""

_RUN = re.compile(r"[A-Za-z0-9+/]{64}")
_WORDS = tuple(dict.fromkeys(word for _, words in SHAPES for word in words))

# The same for bytes. Looking for a word takes the same time whatever it is, so words that differ only in what follows a
# name (=, : or a quotation mark) are looked for as one, and of words that contain another only that one.
_LOWER = bytes.maketrans(bytes(range(65, 91)), bytes(range(97, 123)))
_FOLDED = _LOWER.translate(bytes.maketrans(b':"', b"=="))
_STEMS = {word.encode().translate(_FOLDED) for word in _WORDS}
_STEMS = {stem for stem in _STEMS if not any(other in stem for other in _STEMS - {stem})}
_EXACT_WORDS = tuple(word.encode() for word in _WORDS)
_LETTERS = bytes(97 if chr(at).isascii() and (chr(at).isalnum() or chr(at) in "+/") else 32 for at in range(256))
_LONG_RUN = b"a" * 64
_SHORT, _MANY = 64, 4096

_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_MARKER = 80
_PEM_LINE = re.compile(r"[\s+>|\-]*[\"']?(?:[A-Za-z0-9+/=]+|(?:Proc-Type|DEK-Info|Version|Comment): .*)?[\"',\\nr\s]*")
"""A line of a key, also in a patch or as text of a program."""
_SECRET_NAME = re.compile(r".*(API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)")


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return _SECRET_NAME.fullmatch(name.upper()) is not None


class Redactor:
    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for line in value.splitlines() for form in _forms(line.strip())}
        self._exact = sorted((form for form in forms if len(form) >= SHORTEST), key=len, reverse=True)
        self._exact_bytes = tuple(form.encode("utf-8", "surrogatepass") for form in self._exact)
        self.longest = max(_LONGEST, *(len(form) for form in self._exact), 0)
        self._unprintable = any(not form.isprintable() for form in self._exact)
        """Whether JSON may write one of them in another way: with a tab in it, for example."""
        self._clean: set[str] = set()
        """Short texts without secrets, as they come again and again: names of fields, kinds of events, times."""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str], values: Iterable[str] = ()) -> Redactor:
        """A Redactor that also knows the values of all variables that look like secrets."""
        return cls([*values, *(value for name, value in environment.items() if is_secret_name(name))])

    def found(self, text: str, start: int = 0) -> Iterator[re.Match[str]]:
        """The secrets in one line. Only shapes that can occur in this text are tried, which only saves time."""
        lower = text.lower()
        possible = [re.escape(form) for form in self._exact if form in text]
        run = _RUN.search(text) is not None
        if not possible and not run and not any(map(lower.__contains__, _WORDS)):
            return iter(())
        possible += [shape for shape, words in SHAPES if any(word in lower for word in words) or run and not words]
        return re.compile("|".join(possible)).finditer(text, start) if possible else iter(())

    def text(self, text: str) -> str:
        if text in self._clean:
            return text
        if "-----" not in text and next(self.found(text), None) is None:
            if len(text) <= _SHORT and len(self._clean) < _MANY:
                self._clean.add(text)
            return text  # as in nearly all texts
        stream = self.stream()
        return stream.feed(text) + stream.end()

    def lines(self, text: str) -> tuple[str, int]:
        """A text that others compose, such as a patch: redacted, and how many of its lines that concerns.

        The beginning of a key takes with it only lines that look like those of one, so it cannot hide the rest.
        """
        if self.surely_clean(text.encode("utf-8", "surrogatepass")):
            return text, 0
        out, changed, inside = [], 0, False
        for line in text.split("\n"):
            if inside and _PEM_END.search(line) is None and _PEM_LINE.fullmatch(line):
                changed += 1
                continue
            clean = self.text(line)
            begins = [match.end() for match in _PEM_BEGIN.finditer(line)]
            inside = bool(begins) and _PEM_END.search(line, begins[-1]) is None
            changed += clean != line
            out.append(clean)
        return "\n".join(out), changed

    def surely_clean(self, text: bytes) -> bool:
        """Whether a text, or JSON with many of them, has no secret, for certain; False where it must be looked at."""
        if self._unprintable or b"-----" in text or any(form in text for form in self._exact_bytes):
            return False
        if _LONG_RUN in text.translate(_LETTERS):
            return False
        # Without backslashes, as a quotation mark in a string of JSON is written after one.
        if not any(map(text.translate(_FOLDED, b"\\").__contains__, _STEMS)):
            return True
        return not any(map(text.translate(_LOWER, b"\\").__contains__, _EXACT_WORDS))

    def tree(self, value: Any) -> Any:
        """The same JSON value with every text in it redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key) if isinstance(key, str) else key: self.tree(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.tree(item) for item in value]
        return value

    def stream(self) -> RedactedStream:
        return RedactedStream(self)

    def pieces(self, texts: Iterable[str]) -> list[str]:
        """Pieces of one text, redacted together: a secret that was cut in two is still found."""
        stream = self.stream()
        out = [stream.feed(text) for text in texts]
        if out:
            out[-1] += stream.end()
        return out


def _forms(value: str) -> tuple[str, ...]:
    """The value as it is, and as it looks inside a JSON string."""
    return value, value.replace("\\", "\\\\").replace('"', '\\"')


class RedactedStream:
    """Feed chunks, send on what comes back, and finish with `end`."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._keys = _KeyBlocks()
        self._before = ""
        """The last character that was passed on, to tell whether the next one begins a word."""
        self._held = ""

    def feed(self, chunk: str) -> str:
        text = self._keys.feed(chunk)
        line = text.rfind("\n") + 1
        self._held += text
        longest = self._redactor.longest
        # A long line is searched again only when half of it is new, because small chunks are many.
        upto = len(self._held) - longest if len(self._held) >= 2 * longest else 0
        return self._send(max(upto, len(self._held) - len(text) + line if line else 0))

    def end(self) -> str:
        self._held += self._keys.end()
        return self._send(len(self._held))

    @property
    def held(self) -> str | None:
        """What is held back; None inside of a key, which is not passed on."""
        return None if self._keys.inside else self._held + self._keys.held

    def skip(self, text: str) -> int:
        """Take a text, with what was held back before it, that surely has no secret, and hold back only what could be
        the beginning of one. Returns how many characters that is."""
        longest = self._redactor.longest
        rest = len(text) - text.rfind("\n") - 1
        rest = rest if rest < 2 * longest else longest
        cut = len(text) - rest
        self._before = text[cut - 1 : cut] or self._before
        self._held, self._keys.held = "", text[cut:]
        return rest

    def _send(self, upto: int) -> str:
        if upto <= 0:
            return ""
        subject = self._before + self._held
        at = start = len(self._before)
        upto += start
        out = []
        for found in self._redactor.found(subject, start):
            if found.end() > upto:
                upto = min(upto, found.start())
                break
            prefix = found[found.lastgroup] if found.lastgroup else ""
            out += [subject[at : found.start()], prefix, MARK]
            at = found.end()
        out.append(subject[at:upto])
        if upto > start:
            self._before, self._held = subject[upto - 1], subject[upto:]
        return "".join(out)


class _KeyBlocks:
    """Removes whole PEM private keys, the only secrets that span several lines."""

    def __init__(self) -> None:
        self.inside = False
        self.held = ""

    def feed(self, chunk: str) -> str:
        return self._pass(chunk, last=False)

    def end(self) -> str:
        return self._pass("", last=True)

    def _pass(self, chunk: str, last: bool) -> str:
        text = self.held + chunk
        out = []
        while found := (_PEM_END if self.inside else _PEM_BEGIN).search(text):
            out.append("" if self.inside else text[: found.start()] + MARK)
            text = text[found.end() :]
            self.inside = not self.inside
        marker = text.rfind("-----", max(text.rfind("\n") + 1, len(text) - _PEM_MARKER))
        tail = len(text.rstrip("-"))
        keep = len(text) if last else min(marker if marker >= 0 else len(text), tail)
        out.append("" if self.inside else text[:keep])
        self.held = text[keep:]
        return "".join(out)
