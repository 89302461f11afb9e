"""Outside agents driven as sessions: one folder per program or protocol."""
