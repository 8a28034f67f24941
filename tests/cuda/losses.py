"""losses.py PROGRAM REFERENCE [--write]: runs cuda_instantiations and compares the numbers that it prints with those of
the host. The reference has a line for each, behind the relative difference that it may have. --write writes the lines anew,
with the program compiled for the host: g++ -O0, the header-only library and Kokkos for the host."""
import re
import subprocess
import sys

NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?|nan|inf")


def numbers(line):
    return [float(text) for text in NUMBER.findall(line)]


def main() -> int:
    program, reference = sys.argv[1:3]
    run = subprocess.run([program], capture_output=True, text=True)
    lines = [line for line in run.stdout.splitlines() if not line.startswith(("halogen:", "Kokkos"))]
    if run.returncode != 0:
        print(run.stdout[-2000:], run.stderr[-4000:], f"{program} ended with {run.returncode}")
        return 1
    with open(reference) as file:
        wanted = [line.rstrip("\n").split(": ", 1) for line in file]
    if "--write" in sys.argv:
        tolerances = [tolerance for tolerance, _ in wanted] if len(wanted) == len(lines) else ["2e-4"] * len(lines)
        with open(reference, "w") as to:
            to.writelines(f"{tolerance}: {line}\n" for tolerance, line in zip(tolerances, lines))
        return 0
    wrong = len(wanted) != len(lines)
    if wrong:
        print(f"{len(lines)} lines, {len(wanted)} in the reference")
    for line, (tolerance, want) in zip(lines, wanted):
        pairs = list(zip(numbers(line), numbers(want)))
        close = NUMBER.sub("#", line) == NUMBER.sub("#", want) and all(
            here == there or abs(here - there) <= float(tolerance) * max(abs(there), 0.1) for here, there in pairs)
        wrong = wrong or not close
        print("same" if close else "DIFFERENT", line, "" if close else f"   on the host: {want}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
