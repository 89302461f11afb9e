"""Without async, for scripts and notebooks: python script.py"""

import sys

import treadle

result = treadle.run(
    "Fix the spelling in README.md.", cwd=".", mode="auto-edit", limits=treadle.Limits(max_seconds=600)
)
print(result.text)
for change in result.changes:
    print("changed:", change.path)
sys.exit(0 if result.ok else 1)
