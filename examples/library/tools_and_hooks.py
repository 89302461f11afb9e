"""Tools of your own program, hooks as functions, and someone who answers: python tools_and_hooks.py"""

import asyncio

import treadle

STOCK = {"loom": 2, "shuttle": 0}


@treadle.tool(kind="read")
def in_stock(article: str) -> str:
    """Say how many of an article are in stock."""
    return f"{STOCK.get(article, 0)} of {article}"


def before(use: treadle.Use) -> str | None:
    """A returned text blocks the call, and the model reads it."""
    return "no shell here, please" if use.tool == "bash" else None


def after(use: treadle.Use, result: str, ok: bool) -> None:
    print(f"{use.tool}: {result if ok else 'failed'}")


async def answer(asked: treadle.Asked) -> bool:
    """Answers instead of a person: return True, False, a text, or an Answer."""
    print(f"asked: {asked.text}")
    return asked.tool_kind != "network"


async def main() -> None:
    async with treadle.open(
        cwd=".", tools=[in_stock, "bash"], on_ask=answer, pre_tool=before, post_tool=after
    ) as conversation:
        result = await conversation.say("How many looms and shuttles are there?")
        print(result.text)
        print("cost:", "unknown" if result.cost is None else f"${result.cost:.4f}")


if __name__ == "__main__":
    asyncio.run(main())
