"""Receipts of runs, and the command that looks at them."""

SECOND = "550e8400-e29b-41d4-a716-446655440001"
