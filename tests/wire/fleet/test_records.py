"""What is stored of an order."""

import msgspec

from treadle.wire.fleet.records import (
    AgentQuestion,
    AnswerRecord,
    Attempt,
    Order,
    OrderReceipt,
    TakenRecord,
    Used,
    WorkRecord,
)


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


def test_costs_that_are_both_known_are_added() -> None:
    assert Used(usd=0.5).plus(Used(usd=0.25)).usd == 0.75 and Used().plus(Used(usd=0.25)).usd == 0.25


def test_an_attempt_is_placed_then_started_and_then_what_it_ended_as() -> None:
    placed = Attempt(number=1, node="n", placed=1.0)
    assert placed.state == "placed" and msgspec.structs.replace(placed, started=2.0).state == "started"
    assert msgspec.structs.replace(placed, started=2.0, outcome="lost").state == "lost"
    assert not Order(id="a", state="running", changed=0.0).parked


def test_the_words_of_a_question_are_its_command_else_its_headline_else_its_text() -> None:
    asked = AgentQuestion(text="May I?", headline="write a.txt", command="make")
    assert asked.words == "make" and msgspec.structs.replace(asked, command=None).words == "write a.txt"
    assert AgentQuestion(text="May I?").words == "May I?"


def test_an_answer_stands_until_it_is_withdrawn() -> None:
    answer = AnswerRecord(decision="allow")
    assert answer.stands and answer.state == "answered"
    withdrawn = AnswerRecord(decision="allow", withdrawn=1.0)
    assert not withdrawn.stands and withdrawn.state == "open"
    assert not TakenRecord().withdrawn and not WorkRecord(order="a", attempt=1).commands
