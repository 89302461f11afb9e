"""Records of what a run claimed, what was observed, and what was verified.

How a run is carried out is in `host`; this only records it.
"""
