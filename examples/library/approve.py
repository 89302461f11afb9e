"""A person at the terminal answers what the agent asks: python approve.py "PROMPT" """

import asyncio
import sys

import treadle


def on_ask(asked: treadle.Asked) -> bool:
    print(f"{asked.name}: {asked.command or ', '.join(asked.paths)}")
    return input("allow? [y/N] ") == "y"


async def main() -> None:
    async with treadle.open(on_ask=on_ask) as conversation:
        print((await conversation.say(sys.argv[1])).text)


asyncio.run(main())
