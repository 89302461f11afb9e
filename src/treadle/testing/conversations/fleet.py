"""What is said in a fleet: an order is submitted, placed, done, and its receipt stored."""

from treadle.wire.common.connection import Conversation
from treadle.wire.fleet.connection import Published
from treadle.wire.fleet.orders import OrderLimits, OrderPolicy, Spec
from treadle.wire.fleet.records import Attempt, Order, OrderReceipt, Used

SPEC = Spec(
    id="a1",
    task="mend the test \u2028 and say so",
    claims=("src/**",),
    limits=OrderLimits(usd=2.5),
    policy=OrderPolicy(deny_write=("secrets/**",)),
    by="ann",
    created=1700000000.0,
)
ATTEMPT = Attempt(number=1, node="n1", placed=1700000001.0, outcome="done", used=Used(input_tokens=7, usd=0.1))
SAMPLES: list[Conversation] = [
    [
        ("client", Published("$KV.fleet.spec.a1", SPEC)),
        ("scheduler", Published("$KV.fleet.order.a1", Order(id="a1", state="placed", changed=1.5, node="n1"))),
        ("scheduler", Published("$KV.fleet.receipt.a1", OrderReceipt(order="a1", outcome="done", attempts=(ATTEMPT,)))),
    ]
]
