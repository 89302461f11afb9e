"""A recorder between a host and an agent: it passes everything on, and writes down what may be kept."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

from treadle.testing.record import HIDE, LONG, MANY, Recorder, shortened

AGENT = """
import sys
for line in sys.stdin:
    sys.stdout.write(line.upper() if "{" not in line else line)
    sys.stdout.flush()
sys.exit(3)
"""


def test_both_sides_are_passed_on_and_written_down_without_what_is_hidden(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    argv = [sys.executable, "-m", "treadle.testing.record", str(record), sys.executable, "-c", AGENT]
    env = {**os.environ, HIDE: "s3cret=KEY\n=nothing\n"}
    asked = '{"key": "s3cret"}\nplain s3cret\n'
    done = subprocess.run(argv, input=asked, capture_output=True, text=True, env=env, timeout=60)
    assert (done.stdout, done.returncode) == ('{"key": "s3cret"}\nPLAIN S3CRET\n', 3), done.stderr
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [each["line"] for each in lines if each["dir"] == "in"] == [{"key": "KEY"}, "plain KEY"]
    assert [each["line"] for each in lines if each["dir"] == "out"][0] == {"key": "KEY"}


def test_long_texts_and_lists_are_shortened_at_any_depth() -> None:
    made = shortened({"a": ["x" * (LONG + 1)] * (MANY + 1), "b": ["y"] * MANY, "c": "z" * LONG, "d": 1})
    assert made["a"] == ["x" * (LONG // 2) + f" ...({LONG + 1})"] * 2
    assert (made["b"], made["c"], made["d"]) == (["y"] * MANY, "z" * LONG, 1)


def test_each_line_is_there_as_soon_as_it_was_said_and_the_agent_sees_the_end_of_its_host(tmp_path: Path) -> None:
    said = b'{"a": "\xc3\xbc s3cret s3cret"}\n[1, "\xff'
    raw = io.BytesIO()
    sink = io.BufferedWriter(raw)
    with open(tmp_path / "r", "w", encoding="utf-8") as file:
        recorder = Recorder(file, [("s3cret", "KEY"), ("1", "ONE")])
        recorder.pump("out", io.BytesIO(said), sink)
        assert raw.getvalue() == said and not sink.closed
        recorder.pump("in", io.BytesIO(b"{}\n\n"), sink)
        assert sink.closed
        recorder.pump("in", io.BytesIO(b"7\n8\n"), Gone())
        assert (tmp_path / "r").read_text().splitlines() == [
            '{"dir": "out", "line": {"a": "\u00fc KEY KEY"}}',
            '{"dir": "out", "line": "[ONE, \\"\ufffd"}',
            '{"dir": "in", "line": {}}',
            '{"dir": "in", "line": ""}',
            '{"dir": "in", "line": 7}',
        ]


class Gone(io.BytesIO):
    """An agent that has ended."""

    def write(self, data: object) -> int:
        raise BrokenPipeError
