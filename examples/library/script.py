"""Without async, for scripts and notebooks: python script.py"""

import sys

import treadle

result = treadle.run(
    "Fix the spelling in README.md.", cwd=".", mode="auto-edit", limits=treadle.Limits(max_seconds=600)
)
print(result.text)
for path in result.changes:
    print("changed:", path)
sys.exit(0 if result.ok else 1)
