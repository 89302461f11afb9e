"""The budget of a goal, as the fleet holds its orders to it."""

from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.goals import deciding
from treadle.wire.goal.plan import GoalPlan


async def tell(bus: Bus, name: str, plan: GoalPlan, raised: int) -> None:
    """Tell the fleet what all orders of the goal may use together."""
    usd, tokens = deciding.allowance(plan, raised)
    if usd is not None or tokens is not None:
        await client.set_budget(bus, f"project:{name}", usd=usd, tokens=tokens, by="goal")
