"""The records of a one-shot run: json and stream-json (seed 002)."""
