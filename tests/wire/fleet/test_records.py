"""What is stored of an order."""

from treadle.wire.fleet.records import Attempt, Order, OrderReceipt, Used


def test_an_unknown_cost_stays_unknown_until_one_is_known() -> None:
    assert Used(input_tokens=1).plus(Used(output_tokens=2)).usd is None
    both = Used(input_tokens=1, usd=0.5).plus(Used(output_tokens=2, cache_read_tokens=3, cache_write_tokens=4, calls=1))
    assert both.usd == 0.5 and both.tokens == 10 and both.calls == 1


def test_what_was_given_back_properly_is_no_try() -> None:
    outcomes = ("lost", "handed_back", "parked", "not_here", "failed", "")
    attempts = tuple(Attempt(number=n, node=f"n{n}", placed=0.0, outcome=o, why=o) for n, o in enumerate(outcomes))
    order = Order(id="a", state="asking", changed=0.0, attempts=attempts)
    assert order.tries == 3 and order.turned_down == {"n3": "not_here"} and order.parked and not order.ended
    assert not Order(id="a", state="asking", changed=0.0, node="n").parked
    assert Order(id="a", state="skipped", changed=0.0).ended


def test_a_seal_covers_everything_but_itself() -> None:
    sealed = OrderReceipt(order="a", outcome="done", ended=1.0).sealed()
    assert sealed.sealed() == sealed and len(sealed.sha256) == 64
    assert OrderReceipt(order="a", outcome="failed", ended=1.0).sealed().sha256 != sealed.sha256
