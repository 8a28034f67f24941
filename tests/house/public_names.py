#!/usr/bin/env python3
"""public_names.py ROOT: every public type is tried in tests/static/names_of_*.cpp, so that none finds halogen::detail.

A type or template of namespace halogen, and a function there whose declaration does not name what it returns, stands in
one of these files as `hg::NAME`, or below: MADE_BY names the tried function that returns it, WITHOUT says why it has
nothing to try. Concepts and enumerations have neither bases nor template arguments.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import tested  # noqa: E402

# What users get from a function, whose template arguments no one writes.
MADE_BY = {
    "Attention": "scaled_dot_product_attention", "Broadcast": "expand", "ConcatenatedPieces": "concatenate_pieces",
    "Contraction": "matmul", "PartialProduct": "matmul", "CumulativeSum": "cumulative_sum", "FieldLeaf": "as_expression",
    "Iterated": "iterate", "Redistributed": "redistribute", "Concatenated": "concatenate",
    "FlattenedPieces": "flatten_pieces", "UnflattenedPieces": "unflatten_pieces", "Pointwise": "apply",
    "Rearranged": "flip", "Reduced": "mean", "ArgMax": "argmax", "Reduction": "sum", "Resliced": "slice",
    "Spread": "pad", "Mapped": "permute", "Selected": "select", "Reshaped": "unflatten", "Stored": "stored",
    "Shift": "shift", "Bounded": "with_boundary", "GlobalIndex": "global_index", "Folded": "with_boundary",
    "ValueAndGrad": "value_and_grad", "VariableLeaf": "value_and_grad", "ExpressionLoss": "expression_loss",
    "CapturedStep": "Trainer", "StepResult": "Trainer",
    "NetworkOutput": "infer", "NetworkOutputs": "Twins", "OutputOf": "Twins",
    "NetworkCall": "value_and_grad", "NetworkCalls": "Twins", "AppliedNetwork": "value_and_grad",
    "NetworkLoss": "value_and_grad", "Batches": "batches", "ContractionSpec": "einsum", "Function": "Draws",
}
WITHOUT = {
    "an alias of what is tried, or of what is not Halogen's": """compute_type Position Offsets expression_of
        placed_at gradient_field_t gradient_placement_t dual_argument RowParts Strips LossMeans SpaceNeeds
        SquareFootprint PieceSizes StepMemory execution_space memory_space transport_space WhyNot""",
    "a base alone": "ExpressionNode EvaluationParts",
    "made by a run for itself, never given to a user": """PartialOf BasicPlan PlanOf Evaluation LossTerm""",
    "returns numbers, fields, or what a function gives it": "value_and_grad_of allocated by_arguments agree",
    "returns a view of Kokkos": """host_copy all_gather_v gather_v indexed_all_to_all_v reduce_scatter_v scatter_v""",
}

TYPE = re.compile(r"^(?:class|struct|union|using) (?:alignas\(.*\) )?(\w+)\b(?! namespace|::| \[\[deprecated)")
FUNCTION = re.compile(r"^(?:(?:constexpr|inline|static|KOKKOS_\w+) )*(?:auto|decltype\(auto\)|[\w:]*detail::[\w:<>, ]+) (\w+)\(")
FUNCTOR = re.compile(r"^HALOGEN_(?:UNARY|BINARY|BINARY_FUNCTION)\(\w+, (\w+),")
TRIED = re.compile(r"\bhg::(\w+)")


def public_names(root):
    """{name: header} of namespace halogen itself. Raises where a header's braces cannot be followed."""
    names = {}
    for header in sorted((root / "include" / "halogen").rglob("*.hpp")):
        for line in tested.outer_lines(header):
            for pattern in (TYPE, FUNCTION, FUNCTOR):
                if found := pattern.match(line):
                    names.setdefault(found[1], str(header.relative_to(root)))
    return names


def tried_names(root):
    sources = sorted((root / "tests" / "static").glob("names_of_*.cpp"))
    code = "\n".join(re.sub(r"//.*", "", source.read_text()) for source in sources)
    return set(TRIED.findall(code)) | set(re.findall(r"\bstruct (\w+)", code))


def faults(root):
    public, tried = public_names(root), tried_names(root)
    without = {name for names in WITHOUT.values() for name in names.split()}
    print(f"{len(public)} public names, {len(public.keys() & tried)} of them tried")
    for name, header in public.items():
        if name in tried or name in without or name == "operator":
            continue
        if name not in MADE_BY:
            yield f"{header}: no tests/static/names_of_*.cpp tries hg::{name}: a type made of types of detail may leak"
        elif MADE_BY[name] not in tried:
            yield f"{header}: no tests/static/names_of_*.cpp tries {MADE_BY[name]}, which makes hg::{name}"
    for name in sorted((without | MADE_BY.keys()) - public.keys()):
        yield f"public_names.py: there is no {name}: take it off the list"
    for name in sorted(without & tried):
        yield f"public_names.py: {name} is tried: take it off the list"


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)
