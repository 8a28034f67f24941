#!/usr/bin/env python3
"""Draws random programs of the array language and writes them as C++ sources.

draw_programs.py --seed SEED --programs COUNT --files COUNT --out FOLDER   writes FOLDER/programs_0.cpp, ..., networks.cpp

A program is an expression of one or two variables, up to three operations deep, with its rank, mesh, placements,
boundaries and number type; what only a run needs (extents, cuts, values) is drawn then, by random_program.hpp. The same
seed writes the same files. Every operation keeps the shape of its operands, or is undone at once (a slice of what was
padded), so that any two expressions of a program can meet; only the outermost may change it.
In one program of six the variables are the outputs of a network, its first and its second, and what is differentiated
are its parameters and its image. Those stand in networks.cpp, so that the others read the array language alone.
"""
import argparse
import pathlib
import random

RANKS = [1, 2, 2, 2, 3, 3, 4]
NUMBERS = ["double", "double", "double", "float", "float", "int"]
OPERATIONS = 4  # at most, in one program: more cost compile time and find no more
NETWORKS = 6  # one program of so many


class Expression:
    """text; exact: the same bits on every mesh, since nothing in it is a sum over points."""

    def __init__(self, text, exact=True):
        self.text, self.exact = text, exact

    def __str__(self):
        return self.text


class Setting:
    """Rank, mesh, placements and numbers, shared by some programs of one file: types are what costs compile time."""

    def __init__(self, draw):
        self.rank = draw.choice(RANKS)
        self.mesh_rank = draw.choice([1, 2, 2, 3])
        self.type = draw.choice(NUMBERS)
        self.codes = [draw.choice([-1] + 2 * list(range(self.rank))) for _ in range(self.mesh_rank)]
        if all(code < 0 for code in self.codes):
            self.codes[draw.randrange(self.mesh_rank)] = draw.randrange(self.rank)
        self.other_codes = [draw.choice([-1] + list(range(self.rank))) for _ in self.codes]
        self.vector_dimension = draw.randrange(self.rank)
        self.vector_is_cut = draw.random() < 0.5


class Program:
    def __init__(self, number, seed, setting):
        self.number = number
        self.draw = random.Random(f"{seed}.{number}")
        vars(self).update(vars(setting))
        self.is_int = self.type == "int"
        self.chunked = False  # holds what is cut as torch.chunk, so that its fields must be too
        self.periodic = [self.draw.random() < 0.35 for _ in range(self.rank)]
        self.stencils = []
        self.budget = OPERATIONS
        self.variables = ["x"]
        kind = self.draw.random()
        if kind < 0.35:
            self.variables.append("y")
        elif kind < 0.6 and self.rank > 1:
            self.variables.append("v")
        self.result = self.root()
        self.differentiable = not self.is_int and "argmax" not in self.result.text and self.draw.random() < 0.45

    # -- types ---------------------------------------------------------------------------------------------------------
    @staticmethod
    def placement(code):
        return "hg::Replicate" if code < 0 else f"hg::Shard<{code}>"

    def field(self, rank, codes):
        mesh = "Mesh" + str(self.mesh_rank)
        extents = ", ".join(["hg::dyn"] * rank)
        places = ", ".join(self.placement(code) for code in codes)
        return f"hg::Sharded<hg::Tensor<{self.type}, {extents}>, {mesh}, {places}>"

    def type_of(self, variable):
        if variable != "v":
            return self.field(self.rank, self.codes)
        cut = [0 if self.vector_is_cut and code == self.vector_dimension else -1 for code in self.codes]
        return self.field(1, cut)

    # -- expressions ---------------------------------------------------------------------------------------------------
    def dimension(self):
        return self.draw.randrange(self.rank)

    def constant(self):
        return str(self.draw.randrange(2, 5)) if self.is_int else f"T({self.draw.choice(['0.5', '0.75', '1.5', '2'])})"

    def leaf(self):
        variable = self.draw.choice(self.variables)
        if variable == "v":
            return Expression(f"(x {'+' if self.is_int else '*'} hg::along<{self.vector_dimension}>(v))")
        if not self.is_int and self.draw.random() < 0.07:
            return Expression(f"(x + hg::cast<T>(hg::global_index<{self.dimension()}>(x)) * T(0.125))")
        return Expression(variable)

    def expression(self, depth, exact=False):
        """`exact`: none of its operations may sum."""
        if depth == 0 or self.budget <= 0 or self.draw.random() < 0.12:
            return self.leaf()
        self.budget -= 1
        kinds = [self.sum_of_two, self.shifted, self.padded, self.every, self.stencil, self.turned, self.chosen,
                 self.concatenated, self.redistributed, self.shifted, self.beside, self.reordered, self.reshaped]
        if not self.is_int:
            kinds += [self.function, self.product, self.quotient]
        if not exact:
            kinds += [self.running_sum]
            kinds += [self.with_number, self.reduced] if not self.is_int else []
        kinds += [self.extreme]
        return self.draw.choice(kinds)(depth - 1, exact)

    def two(self, depth, exact):
        a = self.expression(depth, exact)
        b = self.expression(depth if self.draw.random() < 0.5 else 0, exact)
        return (a, b) if self.draw.random() < 0.5 else (b, a)

    def sum_of_two(self, depth, exact):
        a, b = self.two(depth, exact)
        return Expression(f"({a} {self.draw.choice('+-')} {b})", a.exact and b.exact)

    def product(self, depth, exact):
        a, b = self.two(depth, exact)
        return Expression(f"({a} * {b})", a.exact and b.exact)

    def quotient(self, depth, exact):
        a, b = self.two(depth, exact)
        return Expression(f"({a} / (T(2) + hg::square({b})))", a.exact and b.exact)

    def function(self, depth, exact):
        e = self.expression(depth, exact)
        text = self.draw.choice(["hg::sin({})", "hg::cos({})", "hg::tanh({})", "hg::square({})", "(-{})",
                                 "hg::exp(-hg::square({}))", "hg::sqrt(T(2) + hg::square({}))",
                                 "hg::log(T(2) + hg::square({}))", "hg::cast<T>({})", "({} * %s)" % self.constant()])
        return Expression(text.format(e), e.exact)

    def chosen(self, depth, _):
        """What is not smooth has exact operands: a rounding error must not choose otherwise."""
        a, b = self.two(depth, True)
        text = self.draw.choice(["hg::where({a} > {b}, {a}, {n})", "hg::where({a} < {b} || {b} <= {n}, {b}, {a})",
                                 "hg::maximum({a}, {b})", "hg::minimum({a}, {b})", "hg::abs({a})",
                                 "hg::where({a} == {b}, {n}, {a})"])
        return Expression(text.format(a=a, b=b, n=self.constant()))

    def shifted(self, depth, exact):
        e = self.expression(depth, exact)
        return Expression(f"hg::shift<{self.dimension()}, {self.draw.choice([-2, -1, -1, 1, 1, 2, 3])}>({e})", e.exact)

    def beside(self, depth, exact):
        """A difference of two slices, padded to be as long as the field."""
        a, b = self.two(depth, exact)
        return Expression(f"neighbours<{self.dimension()}>({a}, {b})", a.exact and b.exact)

    def padded(self, depth, exact):
        e, d = self.expression(depth, exact), self.dimension()
        before, after = self.draw.randrange(4), self.draw.randrange(4)
        begin = self.draw.randint(0, before + after)
        return Expression(f"hg::slice<{d}>(hg::pad<{d}>({e}, {before}, {after}), {begin}, {begin} + n[{d}])", e.exact)

    def every(self, depth, exact):
        e = self.expression(depth, exact)
        d, begin, step = self.dimension(), self.draw.randrange(4), self.draw.randint(1, 4)
        return Expression(f"every<{d}>({e}, {begin}, {step})", e.exact)

    def turned(self, depth, exact):
        """Something done to the permuted expression, then back."""
        e = self.expression(depth, exact)
        if self.rank == 1:
            return Expression(f"hg::permute<0>({e})", e.exact)
        there = self.draw.sample(range(self.rank), self.rank)
        back = [there.index(d) for d in range(self.rank)]
        inner = f"hg::permute<{', '.join(map(str, there))}>({e})"
        if self.draw.random() < 0.6:
            inner = f"hg::shift<{self.dimension()}, {self.draw.choice([-1, 1, 2])}>({inner})"
        return Expression(f"hg::permute<{', '.join(map(str, back))}>({inner})", e.exact)

    def stencil(self, depth, exact):
        e = self.expression(depth, exact)
        points = [[self.draw.randint(-2, 2) if self.draw.random() < 0.6 else 0 for _ in range(self.rank)]
                  for _ in range(self.draw.randint(2, 3))]
        name = f"Stencil{self.number}_{len(self.stencils)}"
        arguments = ["a", "b", "c"][:len(points)]
        body = self.draw.choice(["a - b" if self.is_int else "a * b - a"]
                                + (["a + b - c", "a > c ? b : c"] if len(points) == 3 else ["a > b ? a : b"]))
        footprint = ", ".join(f"hg::At<{', '.join(map(str, point))}>" for point in points)
        self.stencils.append(
            f"struct {name} {{\n  using footprint = hg::Footprint<{footprint}>;\n  template <class T>\n"
            f"  KOKKOS_FUNCTION T operator()({', '.join('[[maybe_unused]] T ' + a for a in arguments)}) const {{\n"
            f"    return {body};\n  }}\n}};")
        if "?" in body and not e.exact:
            self.stencils[-1] = self.stencils[-1].replace(body, "a - b")
        return Expression(f"hg::stencil({name}{{}}, {e})", e.exact)

    def running_sum(self, depth, exact):
        e = self.expression(depth, exact)
        return Expression(f"hg::cumulative_sum<{self.dimension()}>({e})", self.is_int and e.exact)

    def with_number(self, depth, exact):
        a, b = self.two(depth, exact)
        text = self.draw.choice(["({a} * hg::mean({b}))", "({a} / hg::norm(T(1) + hg::square({b})))",
                                 "({a} / (T(2) + hg::square(hg::sum({b}))))"])
        return Expression(text.format(a=a, b=b), False)

    def extreme(self, depth, exact):
        a, b = self.expression(depth, exact), self.expression(depth, True)
        which, d = self.draw.choice(["max", "min"]), self.dimension()
        inside = f"hg::{which}({b})"
        if self.rank > 1 and self.draw.random() < 0.6:
            inside = f"hg::{which}<{d}>({b}, hg::keep_dimensions)"
        return Expression(f"({a} - {inside})", a.exact)

    def reduced(self, depth, exact):
        a, b = self.two(depth, exact)
        if self.rank == 1:
            return Expression(f"({a} - hg::mean({b}))", False)
        dims = self.draw.sample(range(self.rank), self.draw.randint(1, min(2, self.rank - 1)))
        dims = ", ".join(map(str, dims))
        text = self.draw.choice(["({a} - hg::mean<{d}>({b}, hg::keep_dimensions))",
                                 "({a} * hg::sum<{d}>({b}, hg::keep_dimensions))",
                                 "({a} / hg::norm<{d}>(T(2) + hg::square({b}), hg::keep_dimensions))"])
        return Expression(text.format(a=a, b=b, d=dims), False)

    def concatenated(self, depth, exact):
        a, b = self.two(depth, exact)
        d = self.dimension()
        self.chunked = True
        return Expression(f"hg::slice<{d}>(hg::concatenate<{d}>({a}, {b}), n[{d}] / 2, n[{d}] / 2 + n[{d}])",
                          a.exact and b.exact)

    def redistributed(self, depth, exact):
        e = self.expression(depth, exact)
        self.chunked = True
        there, back = self.field(self.rank, self.other_codes), self.field(self.rank, self.codes)
        return Expression(f"hg::redistribute<{back}>(hg::redistribute<{there}>({e}))", e.exact)

    def reordered(self, depth, exact):
        e, d = self.expression(depth, exact), self.dimension()
        return Expression(self.draw.choice([f"hg::flip<{d}>({e})", f"hg::roll<{d}>({e}, {self.draw.randint(-3, 3)})",
                                            f"hg::stored({e})"]), e.exact)

    def reshaped(self, depth, exact):
        """A dimension that is not cut, split or selected from, and back."""
        e = self.expression(depth, exact)
        whole = [d for d in range(self.rank) if d not in self.codes]
        if self.rank == 4 or not whole:
            return e
        d = self.draw.choice(whole)
        return Expression(self.draw.choice([f"hg::flatten<{d}, {d + 1}>(hg::unflatten<{d}>({e}, n[{d}], 1))",
                                            f"hg::unsqueeze<{d}>(hg::select<{d}>({e}, n[{d}] / 2))"]), e.exact)

    def root(self):
        while True:
            e = self.expression(self.draw.choice([2, 3, 3]))
            if self.budget < OPERATIONS - 1:
                break
            self.budget, self.stencils = OPERATIONS, []
        kind, d = self.draw.random(), self.dimension()
        if kind < 0.45:
            return e
        if kind < 0.55:
            return Expression(f"hg::slice<{d}>({e}, n[{d}] / 3, n[{d}], {self.draw.randint(1, 3)})", e.exact)
        if kind < 0.62:
            return Expression(f"hg::pad<{d}>({e}, {self.draw.randrange(3)}, 2)", e.exact)
        if kind < 0.7:
            there = self.draw.sample(range(self.rank), self.rank)
            return Expression(f"hg::permute<{', '.join(map(str, there))}>({e})", e.exact)
        if kind < 0.76:
            return Expression(f"hg::concatenate<{d}>({e}, {self.leaf()})", e.exact)
        if kind < 0.82:
            return Expression(f"hg::redistribute<{self.field(self.rank, self.other_codes)}>({e})", e.exact)
        if self.rank > 1 and kind < 0.92:
            if e.exact and kind < 0.85:
                return Expression(f"hg::argmax<{d}>({e})")
            which = self.draw.choice(["max", "sum"]) if e.exact else "sum"
            return Expression(f"hg::{which}<{d}>({e})", which == "max" or (self.is_int and e.exact))
        if self.is_int:
            return Expression(f"hg::sum({e})", e.exact)
        return Expression(f"hg::mean({e} * hg::cast<T>(hg::global_index<{d}>(x) + 1))", False)

    # -- C++ -----------------------------------------------------------------------------------------------------------
    def source(self):
        periodic = ", ".join("hg::Periodic" if p else "hg::Zero" for p in self.periodic)
        kinds = ", ".join(f"support::Variable<{self.type_of(v)}, {self.vector_dimension if v == 'v' else -1}>"
                          for v in self.variables)
        parameters = ", ".join(f"const auto& {v}{'_' if v != 'v' else ''}" for v in self.variables)
        bounded = "".join(f"    const auto {v} = hg::with_boundary<{periodic}>({v}_);\n"
                          for v in self.variables if v != "v")
        unused = "".join(f"    static_cast<void>({v});\n" for v in self.variables)
        lines = self.stencils + [
            f"struct Program{self.number} {{",
            f"  using T = {self.type};",
            f"  using Variables = std::tuple<{kinds}>;",
            f"  static constexpr int number = {self.number}, rank = {self.rank};",
            f"  static constexpr bool exact = {str(self.result.exact).lower()}, "
            f"differentiable = {str(self.differentiable).lower()},",
            f"      periodic = {str(any(self.periodic)).lower()}, chunked = {str(self.chunked).lower()};",
            f'  static constexpr const char* text = "{self.result}";',
            "  template <class N>",
            f"  static auto value([[maybe_unused]] const N& n, {parameters}) {{",
            bounded + unused + f"    return {self.result};",
            "  }",
            "};",
            f"const support::Registered<Program{self.number}> registered{self.number};",
        ]
        return "\n".join(lines)


class NetworkProgram(Program):
    """A number made of the outputs of a network of two channels, (N, C, H, W)."""

    def __init__(self, number, seed, setting):
        draw = random.Random(f"{seed}.{number}.network")
        setting.rank, setting.mesh_rank, setting.type = 4, 2, "double"
        setting.codes = draw.choice([[2, 3], [0, 2], [2, 2], [3, -1], [2, 3]])
        setting.other_codes = draw.choice([[3, 2], [0, 1], [-1, 2], [1, 3]])
        super().__init__(number, seed, setting)

    def root(self):
        self.outputs = self.draw.randint(1, 2)
        self.variables = ["x", "y"][:self.outputs]
        while True:
            e = self.expression(self.draw.choice([2, 3, 3]))
            if self.budget < OPERATIONS - 1:
                return e
            self.budget, self.stencils = OPERATIONS, []

    def source(self):
        periodic = ", ".join("hg::Periodic" if p else "hg::Zero" for p in self.periodic)
        places = ", ".join(self.placement(code) for code in self.codes)
        lines = self.stencils + [
            f"struct Program{self.number} {{",
            "  using T = double;",
            f"  using Image = hg::Sharded<hg::Tensor<T, hg::dyn, 2, hg::dyn, hg::dyn>, Mesh2, {places}>;",
            f"  static constexpr int number = {self.number}, rank = 4, outputs = {self.outputs};",
            f"  static constexpr bool periodic = {str(any(self.periodic)).lower()},"
            f" chunked = {str(self.chunked).lower()};",
            f'  static constexpr const char* text = "of outputs: {self.result}";',
            "  template <class N, class X, class Y>",
            "  static auto value([[maybe_unused]] const N& n, const X& x_, const Y& y_) {",
            f"    const auto x = hg::with_boundary<{periodic}>(x_);",
            f"    const auto y = hg::with_boundary<{periodic}>(y_);",
            "    static_cast<void>(x), static_cast<void>(y);",
            f"    return hg::mean({self.result} * hg::cast<T>(hg::global_index<{self.dimension()}>(x) + 1));",
            "  }",
            "};",
            f"const support::RegisteredNetwork<Program{self.number}> registered{self.number};",
        ]
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--programs", type=int, default=150)
    parser.add_argument("--files", type=int, default=6)
    parser.add_argument("--settings", type=int, default=3, help="of each file: see Setting")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    arguments.out.mkdir(parents=True, exist_ok=True)
    settings = [[Setting(draw) for _ in range(arguments.settings)] for _ in range(arguments.files)]
    files = {f"programs_{index}.cpp": [] for index in range(arguments.files)}
    networks = []
    for number in range(arguments.programs):
        file, turn = number % arguments.files, number // arguments.files
        if number % NETWORKS == 1:
            networks.append(NetworkProgram(number, arguments.seed, Setting(draw)))
        else:
            files[f"programs_{file}.cpp"].append(Program(number, arguments.seed, settings[file][turn % arguments.settings]))
    for name, programs in [*files.items(), ("networks.cpp", networks)]:
        text = (f"// Programs drawn by draw_programs.py --seed {arguments.seed}.\n"
                f'#include "support/random_{"network" if name == "networks.cpp" else "program"}.hpp"\n\nnamespace {{\n\n'
                "using support::every, support::neighbours;\n"
                'using Mesh1 = hg::Mesh<"a">;\nusing Mesh2 = hg::Mesh<"a", "b">;\n'
                'using Mesh3 = hg::Mesh<"a", "b", "c">;\n\n'
                + "\n\n".join(program.source() for program in programs) + "\n\n}  // namespace\n")
        (arguments.out / name).write_text(text)
    (arguments.out / "seed.hpp").write_text(
        f"inline constexpr unsigned long long program_seed = {arguments.seed};\n")


main()
