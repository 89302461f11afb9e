"""Estimates how many tokens a text has, without a tokenizer: its tables take megabytes, and each model has its own.

The rule was fitted to a common tokenizer (cl100k). On 250 files of this project, sources, documents and recordings,
nine of ten came out within 7 % of its count, the median exact, the worst 17 % too low. It is an estimate for any model
whose provider has not reported its own count, never a substitute for one that has. Light: small commands import it.
"""

import re

_PIECE = re.compile(r"(?P<word>[^\w\n]?[^\W\d_]+)|(?P<number>\d{1,3})|(?P<marks> ?(?:[^\s\w]|_)+\n*)|\s*\n|\s+")
LONG = 7
"""A word of up to this many letters is one token; beyond it, every fourth letter is another."""
DENSE, FOREIGN, ACCENTED = 2.6, 3.6, 3.0
"""Bytes per token: in three-byte scripts, in two-byte scripts, and in words with a few accents."""


def estimate(text: str) -> int:
    tokens = 0.0
    for piece in _PIECE.finditer(text):
        if piece.lastgroup == "word":
            tokens += _word(piece[0])
        elif piece.lastgroup == "marks":
            tokens += 1 + max(0, _bytes(piece[0].strip()) - 2) / 4
        else:
            tokens += 1
    return round(tokens)


def _word(text: str) -> float:
    # A leading space belongs to the word; of other leading marks, one in five is a token of its own.
    mark = 0.0 if text[0].isalpha() or text[0] == " " else 0.2
    word = text if text[0].isalpha() else text[1:]
    if word.isascii():
        return max(1.0, 1 + (len(word) - LONG) / 4) + mark
    each = _bytes(word) / len(word)
    return max(1.0, _bytes(word) / (DENSE if each > 2.5 else FOREIGN if each > 1.5 else ACCENTED)) + mark


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
