from treadle.agent.providers.windows import window


def test_the_longest_known_beginning_decides() -> None:
    assert window("gpt-5-chat-latest") == 128_000
    assert window("gpt-5.1") == 400_000
    assert window("anthropic/claude-x") == 200_000


def test_an_unknown_model_has_no_known_window() -> None:
    assert window("llama3") is None
