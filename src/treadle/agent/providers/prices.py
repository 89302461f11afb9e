"""What a model call costs, if the price is known (`known.py`, or the settings)."""

import msgspec

from treadle.events import Usage


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens, as in `[models.prices."openai:gpt-5"]` of the settings."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def cost(usage: Usage, price: Price | None) -> float | None:
    """None when the price of any token of this call is unknown."""
    if price is None:
        return None
    total = 0.0
    for tokens, each in (
        (usage.input_tokens, price.input),
        (usage.output_tokens, price.output),
        (usage.cache_read_tokens, price.cache_read),
        (usage.cache_write_tokens, price.cache_write),
    ):
        if tokens and each is None:
            return None
        total += tokens * (each or 0.0)
    return total / 1_000_000
