"""What every session needs, native or driven: event log, turn queue, pending questions, totals.

What an agent says, and in which words, belongs to `agent` and `drivers`.
"""
