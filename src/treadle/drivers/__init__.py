"""Outside agents made into sessions: one file per program or protocol."""
