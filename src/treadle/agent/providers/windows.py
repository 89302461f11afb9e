"""How many tokens well-known models take. Settings override it; for every other model it is unknown."""

WINDOWS = {
    "claude-": 200_000,
    "gpt-4o": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-5": 400_000,
    "gpt-5-chat": 128_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4-mini": 200_000,
}


def window(model: str) -> int | None:
    """The context window for the longest known prefix of the model's name; a vendor's name before it is ignored."""
    bare = model.rpartition("/")[2]
    return next((WINDOWS[start] for start in sorted(WINDOWS, key=len, reverse=True) if bare.startswith(start)), None)
