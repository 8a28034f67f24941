#!/usr/bin/env python3
"""shown.py ROOT [--write]: files that docs/ shows whole, after a line <!-- path -->, are shown as they are, and none is
longer than 60 lines."""
import pathlib
import re
import sys

SHOWN = re.compile(r"<!-- (\S+) -->\n```cpp\n(.*?)```", re.DOTALL)
MOST_LINES = 60
root = pathlib.Path(sys.argv[1])
faults = count = 0
for page in sorted((root / "docs").rglob("*.md")):
    text = page.read_text()
    for path, shown in SHOWN.findall(text):
        count += 1
        if (lines := len(shown.splitlines())) > MOST_LINES:
            faults += 1
            print(f"{path} has {lines} lines, and a reader wants at most {MOST_LINES}")
        if shown != (root / path).read_text():
            faults += 1
            print(f"{page.relative_to(root)} shows {path} as it was: run tests/house/shown.py . --write")
    if "--write" in sys.argv:
        page.write_text(SHOWN.sub(lambda m: f"<!-- {m[1]} -->\n```cpp\n{(root / m[1]).read_text()}```", text))
print(f"{count} files shown, {faults} faults")
sys.exit(faults > 0 and "--write" not in sys.argv or count == 0)
