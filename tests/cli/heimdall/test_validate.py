"""`heimdall-validate`: a message is valid or each fault is named, and one retry is all there is."""

import json

from tests.coordination.conftest import Run

GOOD = '{"type":"question","from":"coder","msg_id":"m1","question":"which port?"}'


def test_a_valid_message_is_0_and_any_other_is_1_with_its_faults(heimdall: Run) -> None:
    fine = heimdall("validate", stdin=GOOD)
    assert (fine.returncode, json.loads(fine.stdout)) == (0, {"valid": True, "errors": []})
    for text in ("{", "[]", '{"type":"question"}', GOOD.replace("question", "riddle", 1)):
        done = heimdall("validate", stdin=text)
        found = json.loads(done.stdout)
        assert (done.returncode, found["valid"]) == (1, False) and found["errors"], text


def test_on_receipt_the_first_valid_message_is_accepted_and_one_retry_is_given(heimdall: Run) -> None:
    first = heimdall("validate", "--on-receipt", stdin=f"{GOOD}\n")
    assert (first.returncode, first.stdout) == (0, "ACCEPTED\n")
    second = heimdall("validate", "--on-receipt", stdin="{\n" + f"{GOOD}\n")
    assert (second.returncode, second.stdout) == (0, "ACCEPTED on retry (attempt 2)\n")
    assert "INVALID (attempt 1)" in second.stderr and "retry: send" in second.stderr
    third = heimdall("validate", "--on-receipt", stdin="{\n{\n" + f"{GOOD}\n")
    assert third.returncode == 1 and third.stdout == "" and "ESCALATE: not valid after one retry" in third.stderr


def test_input_that_ends_too_early_escalates(heimdall: Run) -> None:
    for text in ("", "{\n"):
        done = heimdall("validate", "--on-receipt", stdin=text)
        assert done.returncode == 1 and "the input ended before a valid message" in done.stderr


def test_the_contract_is_printed_and_arguments_are_refused(heimdall: Run) -> None:
    assert "draft-07" in json.loads(heimdall("validate", "--schema").stdout)["$schema"]
    assert heimdall("validate", "extra").returncode == 2
