"""Several agents at once, each with a question of its own: python parallel.py FILE ..."""

import asyncio
import sys

import treadle


async def explain(file: str) -> str:
    async with treadle.open(mode="plan", persist=False) as conversation:
        return (await conversation.say(f"Explain {file} in one sentence.")).text


async def main() -> None:
    for file, text in zip(sys.argv[1:], await asyncio.gather(*map(explain, sys.argv[1:])), strict=True):
        print(f"{file}: {text}")


asyncio.run(main())
