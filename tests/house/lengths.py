#!/usr/bin/env python3
"""lengths.py ROOT: no function of include/halogen has more than 50 lines, from its opening brace's to its last brace's.

A lambda, a local class and the handlers of a function that is one try block count with the function that they stand in.
A lambda that initialises a variable outside functions counts as a function. Namespaces, classes, enumerations and tables
do not.
"""
import pathlib
import re
import sys

LONGEST_FUNCTION = 50

# what may hold a brace that pairs with none; directives go with their continued lines
NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bu?8?R"([^\s()\\]{0,16})\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<!\w)'(?:[^'\\\n]|\\.)+'"""
    r"""|^[ \t]*\#(?:[^\n\\]|\\.)*""", re.DOTALL | re.MULTILINE)
TOKEN = re.compile(r"[{}();]")
BRACE = re.compile(r"[{}]")
GROUP = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|<[^<>]*>")  # innermost: what stands in parentheses, brackets, angles
ACCESS = re.compile(r"\b(?:public|protected|private)\s*:(?!:)")
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum|extern\s*\"\")\b")
OPERATOR = re.compile(r"\boperator\s*(?:\(\)|\[\]|[^\w\s(]+|\w[\w:<>]*)")
LAMBDA = re.compile(r"\][^=\[\]]*$")
REQUIRES = re.compile(r"\brequires\s*(?:\(\))?\s*$")
HANDLER = re.compile(r"\s*catch\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*\{")
CALLED = re.compile(r"(~?[\w:]+)\s*\(\)")
NO_NAMES = ("noexcept", "requires", "decltype", "alignas", "explicit", "sizeof", "auto")


def code_of(text):
    """The text less comments, the contents of strings and directives, line by line the same."""
    return NO_CODE.sub(lambda match: '""' * (match[0][-1] == '"') + "\n" * match[0].count("\n"), text)


def closing(code, opening):
    """Where the brace that stands at `opening` ends."""
    depth = 0
    for brace in BRACE.finditer(code, opening):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    raise ValueError("its braces do not pair")


def outline(head):
    """A declaration less what stands in its parentheses, brackets and angles, which may hold anything."""
    head = OPERATOR.sub("operator_", ACCESS.sub("", head))
    previous = None
    while previous != head:
        previous, head = head, GROUP.sub(lambda match: {"(": "\1\2", "[": "\3\4", "<": ""}[match[0][0]], head)
    return head.translate({1: "(", 2: ")", 3: "[", 4: "]"})


def name_of(head):
    """The function's, as well as a reader needs it to find the line."""
    if operator := OPERATOR.search(head):
        return operator[0]
    text = re.split(r"(?<!:):(?!:)|->", outline(head))[0]
    names = [name for name in CALLED.findall(text) if name not in NO_NAMES]
    if "=" in text:  # a lambda that initialises a variable
        names = re.findall(r"(\w+)\s*=", text)
    return names[-1] if names else " ".join(text.split())[:60]


def opens_scope(shape):
    """Whether what is declared is a namespace or a class, and no function that names one."""
    return SCOPE.search(shape) and "(" not in SCOPE.split(shape)[-1].replace("alignas()", "")


def functions(code):
    """(name, where its brace opens, where its last one ends) of each function that stands in no other."""
    begin = at = parentheses = scopes = 0  # begin: of the declaration that is read
    while token := TOKEN.search(code, at):
        at, kind = token.end(), token[0]
        if kind in "()":
            parentheses += 1 if kind == "(" else -1
        elif kind == "}":
            scopes, begin = scopes - 1, at
        elif kind == ";":
            begin = begin if parentheses else at
        else:
            head = code[begin:token.start()]
            shape = outline(head)
            if not parentheses and opens_scope(shape):
                scopes, begin = scopes + 1, at
                continue
            at = closing(code, token.start())
            if parentheses or "=" in shape or "(" not in shape:  # an initialiser or a default argument
                if LAMBDA.search(head if parentheses else shape):
                    yield name_of(head), token.start(), at
            elif not REQUIRES.search(shape):
                while handler := HANDLER.match(code, at):
                    at = closing(code, handler.end() - 1)
                if code[at:at + 40].lstrip()[:1] not in (",", "{"):  # else a member's initialiser before the body
                    yield name_of(head), token.start(), at
                    begin = at
    if scopes or parentheses:
        raise ValueError("its braces do not pair")


def faults(root):
    headers = sorted((root / "include" / "halogen").rglob("*.hpp"))
    if not headers:
        yield f"{root / 'include'}: no headers"
    count = longest = 0
    for header in headers:
        code, name = code_of(header.read_text()), header.relative_to(root / "include" / "halogen")
        try:
            for function, opens, ends in functions(code):
                lines = code.count("\n", opens, ends) + 1
                count, longest = count + 1, max(longest, lines)
                if lines > LONGEST_FUNCTION:
                    line = code.count("\n", 0, opens) + 1
                    yield f"{name}:{line}: {function} has {lines} lines, more than {LONGEST_FUNCTION}: name its parts"
        except ValueError as error:
            yield f"{name}: {error}"
    print(f"{count} functions, the longest has {longest} lines")


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)
