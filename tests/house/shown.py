#!/usr/bin/env python3
"""shown.py ROOT [--write]: files that docs/ and README.md show whole, after a line <!-- path -->, are shown as they are, and
none is longer than 60 lines. README.md has at most 1000 words and one program, of at most 20 lines, that is shown so."""
import pathlib
import re
import sys

SHOWN = re.compile(r"<!-- (\S+) -->\n```(cpp|c|fortran|python)\n(.*?)```", re.DOTALL)
MOST_LINES = 60
MOST_WORDS, MOST_LINES_FIRST = 1000, 20  # of README.md
root = pathlib.Path(sys.argv[1])
faults = count = 0
first = root / "README.md"
for page in [first, *sorted((root / "docs").rglob("*.md"))]:
    text = page.read_text()
    for path, _, shown in SHOWN.findall(text):
        count += 1
        most = MOST_LINES_FIRST if page == first else MOST_LINES
        if (lines := len(shown.splitlines())) > most:
            faults += 1
            print(f"{path} has {lines} lines, and a reader of {page.relative_to(root)} wants at most {most}")
        if shown != (root / path).read_text():
            faults += 1
            print(f"{page.relative_to(root)} shows {path} as it was: run tests/house/shown.py . --write")
    if "--write" in sys.argv:
        page.write_text(SHOWN.sub(lambda m: f"<!-- {m[1]} -->\n```{m[2]}\n{(root / m[1]).read_text()}```", text))
if (words := len(first.read_text().split())) > MOST_WORDS:
    faults += 1
    print(f"README.md has {words} words, and a first page at most {MOST_WORDS}: move what is too much to its page in docs/")
if first.read_text().count("```cpp") != len(SHOWN.findall(first.read_text())) or len(SHOWN.findall(first.read_text())) != 1:
    faults += 1
    print("README.md shows one program, after a line <!-- path -->")
print(f"{count} files shown, {faults} faults")
sys.exit(faults > 0 and "--write" not in sys.argv or count == 0)
