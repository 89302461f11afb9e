"""Records of what a run claimed, what was observed, and what was verified."""
