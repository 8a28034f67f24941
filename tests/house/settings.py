#!/usr/bin/env python3
"""settings.py ROOT: docs/settings.md has the variables of core/settings.hpp, row by row, and no other header reads the
environment or names a variable that is not in its tables."""
import pathlib
import re
import sys

TABLE, PAGE = "core/settings.hpp", "docs/settings.md"
TEXT = r'(?:"[^"]*"\s*)+'
SETTING = re.compile(r"inline constexpr Setting (\w+)\{\s*(%s),\s*SettingValues::(\w+)\(([^)]*)\),\s*(%s),\s*(%s)\};" % (TEXT, TEXT, TEXT))
OTHER = re.compile(r'\{"([A-Z][A-Z0-9_]*)",\s*(%s)\}' % TEXT)
NAMED = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"')
READS = re.compile(r"\b(?:secure_)?getenv\b|\benviron\b")


def joined(literals):
    return "".join(re.findall(r'"([^"]*)"', literals))


def number(text):
    return f"{float(text):g}" if float(text) < 1e6 or float(text) >= 1e9 else str(int(float(text)))


def values(kind, arguments):
    """What stands in the columns `value` and, for numbers, `unset`."""
    given = [a.strip() for a in arguments.split(",")]
    if kind == "word":
        words = [f"`{joined(a)}`" for a in given]
        return ", ".join(words[:-1]) + " or " + words[-1], None
    if kind == "number":
        return f"a number from {number(given[0])} to {number(given[1])}", number(given[2])
    if kind == "seconds":
        return f"seconds from {number(given[0])} on", number(given[1])
    return {"path": "a path", "address": "`file:/path` or `tcp://host:port`"}[kind], None


def rows(header):
    """The lines of both tables that the page must have, and the names of all variables."""
    settings = SETTING.findall(header)
    if header.count("constexpr Setting ") != len(settings):
        raise SystemExit(f"{TABLE}: {header.count('constexpr Setting ')} settings, {len(settings)} of them understood")
    lines, names = [], []
    for _, name, kind, arguments, otherwise, does in settings:
        value, default = values(kind, arguments)
        names.append(joined(name))
        lines.append(f"| `{names[-1]}` | {value} | {default or joined(otherwise)} | {joined(does)} |")
    others = OTHER.findall(header[header.index("other_variables[]"):])
    lines += [f"| `{name}` | {joined(use)} |" for name, use in others]
    return lines, names, [name for name, _ in others]


def faults(root):
    headers = root / "include" / "halogen"
    table = (headers / TABLE).read_text()
    lines, own, others = rows(table)
    listed = re.search(r"all\[\] = \{(.*?)\};", table, re.DOTALL).group(1).count("&")
    if listed != len(own):
        yield f"{TABLE}: settings::all has {listed} settings of {len(own)}"
    page = (root / PAGE).read_text().splitlines()
    shown = [line for line in page if line.startswith("| `")]
    for line in lines:
        if line not in shown:
            yield f"{PAGE} has not this row of {TABLE}: {line}"
    for line in shown:
        if line not in lines:
            yield f"{PAGE} has a row that is not in {TABLE}: {line}"
    for path in sorted([*headers.rglob("*.hpp"), *(root / "src").rglob("*.[ch]pp")]):
        name = path.relative_to(root).as_posix()
        if name.endswith(TABLE):
            continue
        for count, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("//")[0]
            if READS.search(code):
                yield f"{name}:{count}: reads the environment: name the variable in {TABLE} and read it from there"
            for variable in NAMED.findall(code):
                if variable in own or variable.startswith("HALOGEN_"):
                    yield f"{name}:{count}: names {variable}: write settings::... of {TABLE}"
                elif "/comm/" in name and variable not in others:
                    yield f"{name}:{count}: names {variable}, which is not among other_variables of {TABLE}"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "settings: the page and the header agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
