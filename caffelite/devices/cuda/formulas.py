"""Translates formulas, which Numba compiles on the CPU, node by node to CUDA C++, so that both devices compute the
same arithmetic."""

import ast
from collections.abc import Iterable

from ..formula import Formula, merged

# A formula may use any name that does not end in _, so every name of ours does.
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}

BATCH = 4  # packs that a thread reads before it writes the first: enough to wait for memory once for all
# min and max as Python has them: where one is NaN, the first argument.
FUNCTIONS = """\
__device__ real f_where(bool c, real a, real b) { return c ? a : b; }
__device__ real f_min(real a, real b) { return b < a ? b : a; }
__device__ real f_max(real a, real b) { return b > a ? b : a; }
__device__ real f_sign(real x) { return real(x > 0) - real(x < 0); }
__device__ real f_abs(real x) { return fabs(x); }
__device__ real f_exp(real x) { return exp(x); }
__device__ real f_log(real x) { return log(x); }
__device__ real f_log1p(real x) { return log1p(x); }
__device__ real f_pow(real x, real y) { return pow(x, y); }
__device__ real f_sqrt(real x) { return sqrt(x); }
__device__ real f_tanh(real x) { return tanh(x); }
"""


def expression(node: ast.AST) -> str:
    """One Python expression in C++, every number of type ``real``."""
    match node:
        case ast.Expression(body):
            return expression(body)
        case ast.Constant(value) if isinstance(value, int | float) and not isinstance(value, bool):
            return f"real({float(value)!r})"
        case ast.Name(name):
            return name
        case ast.UnaryOp(ast.USub(), operand):
            return f"(-{expression(operand)})"
        case ast.UnaryOp(ast.UAdd(), operand):
            return expression(operand)
        case ast.BinOp(left, ast.Pow(), right):
            return f"f_pow({expression(left)}, {expression(right)})"
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            return f"({expression(left)} {_BINARY[type(op)]} {expression(right)})"
        case ast.Compare(left, ops, rights) if all(type(op) in _COMPARE for op in ops):
            terms = [expression(n) for n in (left, *rights)]
            return (
                "("
                + " && ".join(f"{a} {_COMPARE[type(o)]} {b}" for a, o, b in zip(terms, ops, terms[1:], strict=False))
                + ")"
            )
        case ast.Call(ast.Name(name), arguments, []):
            return f"f_{name}({', '.join(map(expression, arguments))})"
    raise AssertionError(f"no CUDA for {ast.unparse(node)!r}")


def statements(text: str) -> str:
    """The assignments of an update rule in C++."""
    lines = []
    for node in ast.parse("\n".join(part.strip() for part in text.split(";"))).body:
        match node:
            case ast.Assign([ast.Name(name)], value):
                lines.append(f"{name} = {expression(value)};")
            case ast.AugAssign(ast.Name(name), op, value) if type(op) in _BINARY:
                lines.append(f"{name} {_BINARY[type(op)]}= {expression(value)};")
            case _:
                raise AssertionError(f"no CUDA for {ast.unparse(node)!r}")
    return " ".join(lines)


TYPES = {"float32": "float", "float64": "double", "float16": "fp16", "uint16": "bf16", "uint8": "byte"}
TYPES |= {"int32": "int", "int64": "long long"}


def packed(types: Iterable[str]) -> int:
    """How many numbers a thread takes at once: 16 bytes of the narrowest."""
    return 8 if {"fp16", "bf16"} & set(types) else 4


class FormulaText:
    """Formulas over the same arrays as C++: ``value<i>_`` functions of numbers, and how kernels get these.

    types: those of arrays', scalars' and "out"'s elements, by name; channels: the arrays that have an element a
    channel; columns: whether neighbors are of different channels (P = 1); first: the one of ``channels`` that is x
    itself, and gives the first number of each channel.
    """

    def __init__(
        self,
        formulas: tuple[Formula, ...],
        types: dict[str, str],
        channels: tuple[str, ...] = (),
        columns: bool = False,
        first: str = "",
    ):
        self.types, self._columns = types, columns
        self.arrays, self.scalars, self.constants = (
            merged(formulas, kind) for kind in ("arrays", "scalars", "constants")
        )
        assert set(channels) <= set(self.arrays), channels
        names = ", ".join(f"real {n}" for n in (*self.arrays, *self.scalars, *self.constants))
        self.functions = FUNCTIONS + "".join(
            f"__device__ real value{i}_({names}) {{ return {expression(ast.parse(f.text.strip(), mode='eval'))}; }}\n"
            for i, f in enumerate(formulas)
        )
        self.used = [a for a in self.arrays if any(f.uses(a) for f in formulas)]
        self.each, self.few = ([a for a in self.used if (a in channels) == c] for c in (False, True))
        pointers = [f"const {types[n]}* {n}_at_" for n in (*self.arrays, *self.scalars)]
        self.parameters = "".join(f", {p}" for p in (*pointers, *(f"real {n}_c_" for n in self.constants)))
        self.read_scalars = " ".join(f"const real {s}_s_ = {s}_at_[0];" for s in self.scalars)
        self.k = packed(types.values())
        self.reads = " ".join(f"const auto {a}_v_ = {a}_at_[k_{' * p_' if a == first else ''}];" for a in self.few)

    def value(self, i: int, got: dict[str, str]) -> str:
        """Formula i of one number each: ``got`` says how arrays' names are read."""
        arguments = [got.get(a, "real(0)") for a in self.arrays]
        arguments += [f"{s}_s_" for s in self.scalars] + [f"{c}_c_" for c in self.constants]
        return f"value{i}_({', '.join(arguments)})"

    def single(self, i: int) -> str:
        """Of element i_, and of the channels' values that ``reads`` read."""
        return self.value(i, {a: f"real({a}_v_)" if a in self.few else f"real({a}_at_[i_])" for a in self.used})

    def several(self, i: int) -> str:
        """Of the j_th of what ``packs`` read, and of the channels' values, in columns packs too."""
        alone = () if self._columns else self.few
        return self.value(i, {a: f"real({a}_v_{'' if a in alone else '.at[j_]'})" for a in self.used})

    def wide(self, *more: str) -> str:
        """Whether the alignment of all arrays allows vector loads."""
        return " && ".join(f"wide<{self.k}>({p})" for p in (*more, *(f"{a}_at_" for a in self.each)))

    def packs(self) -> str:
        return " ".join(f"const auto {a}_v_ = load<{self.k}>({a}_at_ + i_);" for a in self.each)

    def loop(self, count: str, fits: str, several: str, single: str) -> str:
        """Statements for each of so many elements: ``several`` for K of them from i_ on where ``fits``, ``single`` for
        what is left."""
        k = self.k
        return f"""const idx done_ = {fits} ? {count} / {k} * {k} : 0;
  EACH(q_, done_ / {k}) {{
    const idx i_ = q_ * {k};
    {several}
  }}
  EACH(q_, {count} - done_) {{
    const idx i_ = done_ + q_;
    {single}
  }}"""

    def map(self, count: str, fits: str, several: str = "", single: str = "") -> str:
        """The same for out = formula, after statements that get the channels' values."""
        out, k = self.types["out"], self.k
        return self.loop(
            count,
            fits,
            f"""{several} {self.packs()}
    Pack<{out}, {k}> out_v_;
    EACH_OF(j_, {k}) out_v_.at[j_] = {self.several(0)};
    store(out_ + i_, out_v_);""",
            f"""{single}
    out_[i_] = {self.single(0)};""",
        )

    def batch(self, rows: int) -> str:
        """Statements for out = formula of ``rows`` packs, ``step_`` elements apart from i_ on. All are read before the
        first is written: the compiler cannot know that this is not where the next is read."""
        k, out = self.k, self.types["out"]
        packs = " ".join(f"Pack<{self.types[a]}, {k}> {a}_p_[{rows}];" for a in self.each)
        loads = " ".join(f"{a}_p_[r_] = load<{k}>({a}_at_ + i_ + r_ * step_);" for a in self.each)
        own = " ".join(f"const auto& {a}_v_ = {a}_p_[r_];" for a in self.each)
        return f"""{packs}
      EACH_OF(r_, {rows}) {{ {loads} }}
      EACH_OF(r_, {rows}) {{
        {own}
        Pack<{out}, {k}> out_v_;
        EACH_OF(j_, {k}) out_v_.at[j_] = {self.several(0)};
        store(out_ + i_ + r_ * step_, out_v_);
      }}"""


def map_source(formula: Formula, types: dict[str, str]) -> str:
    """``formula_map(n, out, *arrays, *scalars, *constants)``."""
    t = FormulaText((formula,), types)
    return f"""{t.functions}KERNEL formula_map(idx n_, {types["out"]}* out_{t.parameters}) {{
  {t.read_scalars}
  {t.map("n_", t.wide("out_"))}
}}
"""


def channel_map_source(formula: Formula, channels: tuple[str, ...], columns: bool, types: dict[str, str]) -> str:
    """``formula_channel_map(n, c, p, out, *arrays, *scalars, *constants)``: arrays named in channels have C elements.
    columns: P = 1."""
    t = FormulaText((formula,), types, channels, columns)
    k = t.k
    if columns:
        fits = " && ".join([f"c_ % {k} == 0", t.wide("out_"), *(f"wide<{k}>({a}_at_)" for a in t.few)])
        reads = " ".join(f"const auto {a}_v_ = load<{k}>({a}_at_ + k_);" for a in t.few)
        body = f"""const idx count_ = n_ * c_, step_ = gridDim.x * (idx)blockDim.x * {k};
  if ({fits} && step_ % c_ == 0) {{  // a thread's packs are of the same channels
    idx i_ = (blockIdx.x * (idx)blockDim.x + threadIdx.x) * {k};
    const idx k_ = i_ % c_;
    {reads}
    for (; i_ + {BATCH - 1} * step_ < count_; i_ += {BATCH} * step_) {{
      {t.batch(BATCH)}
    }}
    for (; i_ < count_; i_ += step_) {{
      {t.batch(1)}
    }}
    return;
  }}
  EACH(i_, count_) {{
    const idx k_ = i_ % c_;
    {t.reads}
    out_[i_] = {t.single(0)};
  }}"""
    else:
        fits, channel = f"p_ % {k} == 0 && {t.wide('out_')}", "const idx k_ = i_ / p_ % c_;"
        body = f"""const idx count_ = n_ * c_ * p_;
  {t.map("count_", fits, f"{channel} {t.reads}", f"{channel} {t.reads}")}"""
    return f"""{t.functions}KERNEL formula_channel_map(idx n_, idx c_, idx p_, {types["out"]}* out_{t.parameters}) {{
  {t.read_scalars}
  {body}
}}
"""


def sum_source(formula: Formula, types: dict[str, str]) -> str:
    """``formula_sum(n, partial, come, out, scale, add, *arrays, *scalars, *constants)``: a number a block, which the
    last block adds up."""
    t = FormulaText((formula,), types)
    several = f"{t.packs()}\n    EACH_OF(j_, {t.k}) total_[0] += {t.several(0)};"
    return f"""{t.functions}KERNEL formula_sum(idx n_, double* partial_, unsigned* come_, {types["out"]}* out_,
    double scale_, idx add_{t.parameters}) {{
  {t.read_scalars}
  double total_[1] = {{}};
  {t.loop("n_", t.wide() or "false", several, f"total_[0] += {t.single(0)};")}
  if (block_sums_of_all(total_, partial_, come_, blockIdx.x, gridDim.x) && threadIdx.x == 0)
    out_[0] = real(scale_ * total_[0]) + (add_ ? real(out_[0]) : real(0));
}}
"""


def update_source(formula: Formula, fixed: tuple[str, ...]) -> str:
    """``formula_update(start, stop, lr_mult, decay_mult, numbers, scale, *arrays, *fixed)``: a block for every tile of
    the flat buffers.

    The rule sees ``rate`` (the rate times the tile's lr_mult), ``decay`` and g already scaled; every array but g is
    written back.
    """
    others = [c for c in formula.constants if c not in ("rate", "decay")]
    constants = [c for c in others if c in fixed]
    changing = [c for c in others if c not in fixed]
    pointers = "".join(f", {'const ' if a == 'g' else ''}real* {a}_at_" for a in formula.arrays)
    arguments = ", ".join(f"real{'' if a == 'g' else '&'} {a}" for a in formula.arrays)
    given = ", ".join(
        [f"{a}_v_.at[j_]{' * by_' if a == 'g' else ''}" for a in formula.arrays] + [f"{c}_c_" for c in others]
    )
    loads = " ".join(f"auto {a}_v_ = load_some<4>({a}_at_ + i_, all_, stop - i_);" for a in formula.arrays)
    stores = " ".join(f"store_some<4>({a}_at_ + i_, {a}_v_, all_, stop - i_);" for a in formula.arrays if a != "g")
    whole = " && ".join(["start % 4 == 0", *(f"wide<4>({a}_at_)" for a in formula.arrays)])
    scalars = "".join(f", real {c}" for c in others)
    return f"""{FUNCTIONS}__device__ void rule(real rate, real decay, {arguments}{scalars}) {{
  {statements(formula.text)}
}}
KERNEL formula_update(const long long* start_, const long long* stop_,
    const real* lr_mult_, const real* decay_mult_, const real* numbers_,
    const real* scale_{pointers}{"".join(f", real {c}_c_" for c in constants)}) {{
  const real rate_ = numbers_[0] * lr_mult_[blockIdx.x], decay_ = decay_mult_[blockIdx.x], by_ = scale_[0];
  if (by_ - by_ != 0) return;  // infinite: no update
  {" ".join(f"const real {c}_c_ = numbers_[{i}];" for i, c in enumerate(changing, 1))}
  const idx start = start_[blockIdx.x], stop = stop_[blockIdx.x];
  const bool whole_ = {whole};
  for (idx i_ = start + 4 * threadIdx.x; i_ < stop; i_ += 4 * blockDim.x) {{
    const bool all_ = whole_ && i_ + 4 <= stop;
    {loads}
    EACH_OF(j_, 4) rule(rate_, decay_, {given});
    {stores}
  }}
}}
"""
