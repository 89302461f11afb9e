"""What version 0.2.0 left on a machine, and what of it still runs: a later version reads, adopts or ends all of it."""
