"""How many tokens a text is, by a real tokenizer whose tables are installed with it: nothing is downloaded.

An estimate for any model whose provider has not reported its own count; never a substitute for one that has.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from treadle.errors import MissingExtra
from treadle.wire.common.jsontext import mended

if TYPE_CHECKING:
    import tiktoken

NAME = "cl100k_base"


def count(text: str) -> int:
    # Text that happens to look like a control token of the model is still only text here.
    return len(_encoding().encode(mended(text), disallowed_special=()))


@lru_cache(maxsize=1)
def _encoding() -> tiktoken.Encoding:
    try:
        import tiktoken

        return tiktoken.get_encoding(f"{NAME}_offline")
    except (ImportError, ValueError) as error:
        raise MissingExtra("counting tokens", "tokens") from error
