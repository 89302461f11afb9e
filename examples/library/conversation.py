"""Two turns of one conversation, then go on with it in another process: python conversation.py"""

import asyncio

import treadle


async def main() -> None:
    async with treadle.open(mode="plan", name="tour") as conversation:
        print((await conversation.say("What does this project do?")).text)
        print((await conversation.say("And where would I begin to read?")).text)
    async with treadle.open(mode="plan", resume="tour") as conversation:
        print((await conversation.say("Thanks. What was my first question?")).text)


asyncio.run(main())
