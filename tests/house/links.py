#!/usr/bin/env python3
"""links.py ROOT: every relative link of README.md, CHANGELOG.md and docs/ leads to a file that is there, and to a heading or an
anchor of it."""
import pathlib
import re
import sys

CODE = re.compile(r"```.*?```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ANCHOR = re.compile(r'<a (?:id|name)="([^"]+)"')


def prose(page):
    return CODE.sub("", page.read_text())


def anchors(page):
    """As GitHub makes them of headings: lower case, words joined by dashes."""
    text = prose(page)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain} | set(ANCHOR.findall(text))


def faults(root):
    pages = [page for page in (root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))) if page.exists()]
    count = 0
    for page in pages:
        for link in LINK.findall(prose(page)):
            if re.match(r"\w+:", link):
                continue
            count += 1
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists():
                yield f"{page.relative_to(root)}: ({link}) leads to no file"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                yield f"{page.relative_to(root)}: ({link}) leads to no heading of {target.relative_to(root)}"
    if not count:
        yield f"{root}: no page has a link"


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(found) or "every link leads somewhere")
    sys.exit(1 if found else 0)
