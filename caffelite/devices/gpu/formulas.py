"""Formulas as CUDA C++: the text that Numba compiles on the CPU, translated node by node, so that both devices do the same arithmetic."""

from __future__ import annotations

import ast

from ..formula import Formula

# A formula may use any name that does not end in _, so every name of ours does.
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}

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
            return "(" + " && ".join(f"{a} {_COMPARE[type(o)]} {b}" for a, o, b in zip(terms, ops, terms[1:], strict=False)) + ")"
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


def _parts(formula: Formula, channels: tuple[str, ...] = ()) -> tuple[str, str, str]:
    """The kernel's last parameters, the lines that read the scalars, and those that read element i (k of the channels' arrays)."""
    assert set(channels) <= set(formula.arrays), channels
    pointers = [f"const real* {name}_at_" for name in (*formula.arrays, *formula.scalars)]
    parameters = "".join(f", {p}" for p in (*pointers, *(f"real {name}" for name in formula.constants)))
    scalars = "".join(f"real {s} = {s}_at_[0]; " for s in formula.scalars)
    loads = "".join(f"real {a} = {a}_at_[{'k_' if a in channels else 'i_'}]; " for a in formula.arrays if formula.uses(a))
    return parameters, scalars, loads


def _cpp(formula: Formula) -> str:
    return expression(ast.parse(formula.text.strip(), mode="eval"))


def map_source(formula: Formula) -> str:
    """``formula_map(n, out, *arrays, *scalars, *constants)``."""
    parameters, scalars, loads = _parts(formula)
    return f"""{FUNCTIONS}KERNEL formula_map(idx n_, real* out_{parameters}) {{
  {scalars}
  EACH(i_, n_) {{ {loads}out_[i_] = {_cpp(formula)}; }}
}}
"""


def sum_source(formula: Formula) -> str:
    """``formula_sum(n, partial, out, scale, add, *arrays, *scalars, *constants)``: a number a block; one block finishes by itself.

    ``formula_sum_finish(blocks, partial, out, scale, add)``: one block that adds up the others' numbers.
    """
    parameters, scalars, loads = _parts(formula)
    return f"""{FUNCTIONS}__device__ void finish(double total, real* out_, double scale_, idx add_) {{
  out_[0] = scale_ * total + (add_ ? out_[0] : real(0));
}}
KERNEL formula_sum(idx n_, double* partial_, real* out_, double scale_, idx add_{parameters}) {{
  {scalars}
  double total_ = 0;
  EACH(i_, n_) {{ {loads}total_ += {_cpp(formula)}; }}
  total_ = block_sum(total_);
  if (threadIdx.x) return;
  if (gridDim.x == 1) finish(total_, out_, scale_, add_);
  else partial_[blockIdx.x] = total_;
}}
KERNEL formula_sum_finish(idx blocks_, const double* partial_, real* out_, double scale_, idx add_) {{
  double total_ = 0;
  for (idx b_ = threadIdx.x; b_ < blocks_; b_ += blockDim.x) total_ += partial_[b_];
  total_ = block_sum(total_);
  if (threadIdx.x == 0) finish(total_, out_, scale_, add_);
}}
"""


def channel_map_source(formula: Formula, channels: tuple[str, ...]) -> str:
    """``formula_channel_map(n, c, p, out, *arrays, *scalars, *constants)``: the arrays named in channels have C elements."""
    parameters, scalars, loads = _parts(formula, channels)
    return f"""{FUNCTIONS}KERNEL formula_channel_map(idx n_, idx c_, idx p_, real* out_{parameters}) {{
  {scalars}
  EACH(i_, n_ * c_ * p_) {{ const idx k_ = i_ / p_ % c_; {loads}out_[i_] = {_cpp(formula)}; }}
}}
"""


def channel_sum_source(formula: Formula, channels: tuple[str, ...]) -> str:
    """``formula_channel_sum(n, c, p, pieces, partial, out, scale, add, *arrays, *scalars, *constants)``: a block a piece of a channel.

    ``formula_column_sum``, the same for P = 1: a block a piece of 32 columns, so that neighbours read neighbours.
    ``formula_channel_finish(c, pieces, partial, out, scale, add)`` adds up the pieces (partial (C, pieces)) where there are several.
    """
    parameters, scalars, loads = _parts(formula, channels)
    head = f"idx n_, idx c_, idx p_, idx pieces_, double* partial_, real* out_, double scale_, idx add_{parameters}"
    return f"""{FUNCTIONS}__device__ void finish(double total, real* out_, idx k_, double scale_, idx add_) {{
  out_[k_] = scale_ * total + (add_ ? out_[k_] : real(0));
}}
KERNEL formula_channel_sum({head}) {{
  {scalars}
  const idx count_ = n_ * p_, each_ = (count_ + pieces_ - 1) / pieces_;
  for (idx b_ = blockIdx.x; b_ < c_ * pieces_; b_ += gridDim.x) {{
    const idx k_ = b_ / pieces_, first_ = b_ % pieces_ * each_, stop_ = first_ + each_ < count_ ? first_ + each_ : count_;
    double total_ = 0;
    for (idx e_ = first_ + threadIdx.x; e_ < stop_; e_ += blockDim.x) {{
      const idx i_ = (e_ / p_ * c_ + k_) * p_ + e_ % p_;
      {loads}total_ += {_cpp(formula)};
    }}
    total_ = block_sum(total_);
    if (threadIdx.x == 0) {{
      if (pieces_ == 1) finish(total_, out_, k_, scale_, add_);
      else partial_[b_] = total_;
    }}
  }}
}}
KERNEL formula_column_sum({head}) {{
  __shared__ double rows_[8][32];
  {scalars}
  const idx each_ = (n_ + pieces_ - 1) / pieces_, lane_ = threadIdx.x & 31, row_ = threadIdx.x >> 5;
  for (idx b_ = blockIdx.x; b_ < (c_ + 31) / 32 * pieces_; b_ += gridDim.x) {{
    const idx k_ = b_ / pieces_ * 32 + lane_, first_ = b_ % pieces_ * each_, stop_ = first_ + each_ < n_ ? first_ + each_ : n_;
    double total_ = 0;
    for (idx e_ = first_ + row_; k_ < c_ && e_ < stop_; e_ += 8) {{
      const idx i_ = e_ * c_ + k_;
      {loads}total_ += {_cpp(formula)};
    }}
    rows_[row_][lane_] = total_;
    __syncthreads();
    if (row_ == 0 && k_ < c_) {{
      for (int r_ = 1; r_ < 8; ++r_) total_ += rows_[r_][lane_];
      if (pieces_ == 1) finish(total_, out_, k_, scale_, add_);
      else partial_[k_ * pieces_ + b_ % pieces_] = total_;
    }}
    __syncthreads();
  }}
}}
KERNEL formula_channel_finish(idx c_, idx pieces_, const double* partial_, real* out_, double scale_, idx add_) {{
  for (idx k_ = blockIdx.x; k_ < c_; k_ += gridDim.x) {{
    double total_ = 0;
    for (idx s_ = threadIdx.x; s_ < pieces_; s_ += blockDim.x) total_ += partial_[k_ * pieces_ + s_];
    total_ = block_sum(total_);
    if (threadIdx.x == 0) finish(total_, out_, k_, scale_, add_);
  }}
}}
"""


def update_source(formula: Formula, fixed: tuple[str, ...]) -> str:
    """``formula_update(start, stop, lr_mult, decay_mult, numbers, scale, *arrays, *fixed)``: a block for every tile of the flat buffers.

    The rule sees ``rate`` (the rate times the tile's lr_mult), ``decay`` and g already scaled; every array but g is written back.
    """
    others = [c for c in formula.constants if c not in ("rate", "decay")]
    constants = [c for c in others if c in fixed]
    changing = " ".join(f"const real {c} = numbers_[{i}];" for i, c in enumerate((c for c in others if c not in fixed), 1))
    arrays = "".join(f", {'const ' if a == 'g' else ''}real* {a}_at_" for a in formula.arrays)
    loads = " ".join(f"real {a} = {a}_at_[i_];" for a in formula.arrays)
    stores = " ".join(f"{a}_at_[i_] = {a};" for a in formula.arrays if a != "g")
    return f"""{FUNCTIONS}KERNEL formula_update(const long long* start_, const long long* stop_,
    const real* lr_mult_, const real* decay_mult_, const real* numbers_, const real* scale_{arrays}{"".join(f", real {c}" for c in constants)}) {{
  const real rate = numbers_[0] * lr_mult_[blockIdx.x], decay = decay_mult_[blockIdx.x], by_ = scale_[0];
  {changing}
  for (idx i_ = start_[blockIdx.x] + threadIdx.x; i_ < stop_[blockIdx.x]; i_ += blockDim.x) {{
    {loads} g = g * by_;
    {statements(formula.text)}
    {stores}
  }}
}}
"""
