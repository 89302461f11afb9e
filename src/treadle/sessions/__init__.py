"""What every session needs, native or driven: event log, turn queue, pending questions, totals."""
