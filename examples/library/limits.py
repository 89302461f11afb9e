"""Stop at a price, a time and a number of model calls, and say why: python limits.py "PROMPT" """

import sys

import treadle

limits = treadle.Limits(max_cost_usd=0.50, max_seconds=300, max_iterations=20)
result = treadle.run(sys.argv[1], mode="auto-edit", limits=limits)
if result.error is not None:
    sys.exit(f"{result.error.code}: {result.error.message}")
print(result.text)
