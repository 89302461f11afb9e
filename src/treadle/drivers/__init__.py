"""Outside agents made into sessions: one folder per program or protocol."""
