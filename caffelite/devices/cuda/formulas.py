"""Formulas as CUDA C++: the text that Numba compiles on the CPU, translated node by node, so that both devices do the
same arithmetic."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from ..formula import Formula, merged

ROWS = 8  # of a column that are added up in the device's type before float64 takes over, which many GPUs compute slowly
TEAM = 16  # pieces of a sum whose last block adds them up

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


TYPES = {"float32": "float", "float64": "double", "float16": "fp16", "uint16": "bf16", "int32": "int", "uint8": "byte"}


def packed(types: Iterable[str]) -> int:
    """How many numbers a thread takes at once: 16 bytes of the narrowest."""
    return 8 if {"fp16", "bf16"} & set(types) else 4


class _Text:
    """Formulas over the same arrays as C++: ``value<i>_`` functions of numbers, and how kernels get these.

    types: those of arrays', scalars' and "out"'s elements, by name; channels: the arrays that have an element a
    channel; first: the one of these that is x itself, and gives the first number of each channel.
    """

    def __init__(
        self, formulas: tuple[Formula, ...], types: dict[str, str], channels: tuple[str, ...] = (), first: str = ""
    ):
        self.types = types
        self.arrays = merged(formulas)
        self.scalars, self.constants = (
            tuple(dict.fromkeys(n for f in formulas for n in getattr(f, k))) for k in ("scalars", "constants")
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
        """Of element i_, and of the channels' values where these were read."""
        return self.value(i, {a: f"real({a}_v_)" if a in self.few else f"real({a}_at_[i_])" for a in self.used})

    def several(self, i: int, columns: bool = False) -> str:
        """Of the j_th of what ``packs`` read."""
        return self.value(
            i, {a: f"real({a}_v_{'' if a in self.few and not columns else '.at[j_]'})" for a in self.used}
        )

    def wide(self, *more: str) -> str:
        """Whether all arrays lie so that packs of them can be read."""
        return " && ".join(f"wide<{self.k}>({p})" for p in (*more, *(f"{a}_at_" for a in self.each)))

    def packs(self, at: str = "i_") -> str:
        return " ".join(f"const auto {a}_v_ = load<{self.k}>({a}_at_ + {at});" for a in self.each)


def map_source(formula: Formula, types: dict[str, str]) -> str:
    """``formula_map(n, out, *arrays, *scalars, *constants)``."""
    t = _Text((formula,), types)
    k = t.k
    return f"""{t.functions}KERNEL formula_map(idx n_, {types["out"]}* out_{t.parameters}) {{
  {t.read_scalars}
  idx done_ = 0;
  if ({t.wide("out_")}) {{
    done_ = n_ / {k} * {k};
    EACH(q_, n_ / {k}) {{
      const idx i_ = q_ * {k};
      {t.packs()}
      Pack<{types["out"]}, {k}> out_v_;
      EACH_OF(j_, {k}) out_v_.at[j_] = {t.several(0)};
      store(out_ + i_, out_v_);
    }}
  }}
  EACH(q_, n_ - done_) {{
    const idx i_ = done_ + q_;
    out_[i_] = {t.single(0)};
  }}
}}
"""


def channel_map_source(formula: Formula, channels: tuple[str, ...], columns: bool, types: dict[str, str]) -> str:
    """``formula_channel_map(n, c, p, out, *arrays, *scalars, *constants)``: arrays named in channels have C elements.
    columns: P = 1."""
    t = _Text((formula,), types, channels)
    k = t.k
    if columns:
        fits = " && ".join([f"c_ % {k} == 0", t.wide("out_"), *(f"wide<{k}>({a}_at_)" for a in t.few)])
        channel, read = "i_ % c_", " ".join(f"const auto {a}_v_ = load<{k}>({a}_at_ + k_);" for a in t.few)
    else:
        fits = f"p_ % {k} == 0 && {t.wide('out_')}"
        channel, read = "i_ / p_ % c_", t.reads
    return f"""{t.functions}KERNEL formula_channel_map(idx n_, idx c_, idx p_, {types["out"]}* out_{t.parameters}) {{
  {t.read_scalars}
  const idx count_ = n_ * c_ * p_;
  if ({fits}) {{
    EACH(q_, count_ / {k}) {{
      const idx i_ = q_ * {k}, k_ = {channel};
      {read}
      {t.packs()}
      Pack<{types["out"]}, {k}> out_v_;
      EACH_OF(j_, {k}) out_v_.at[j_] = {t.several(0, columns)};
      store(out_ + i_, out_v_);
    }}
  }} else {{
    EACH(i_, count_) {{
      const idx k_ = {channel};
      {t.reads}
      out_[i_] = {t.single(0)};
    }}
  }}
}}
"""


def sum_source(formula: Formula, types: dict[str, str]) -> str:
    """``formula_sum(n, partial, come, out, scale, add, *arrays, *scalars, *constants)``: a number a block, which the
    last block adds up."""
    t = _Text((formula,), types)
    k = t.k
    return f"""{t.functions}KERNEL formula_sum(idx n_, double* partial_, unsigned* come_, {types["out"]}* out_,
    double scale_, idx add_{t.parameters}) {{
  {t.read_scalars}
  double total_ = 0;
  idx done_ = 0;
  if ({t.wide() or "false"}) {{
    done_ = n_ / {k} * {k};
    EACH(q_, n_ / {k}) {{
      const idx i_ = q_ * {k};
      {t.packs()}
      EACH_OF(j_, {k}) total_ += {t.several(0)};
    }}
  }}
  EACH(q_, n_ - done_) {{
    const idx i_ = done_ + q_;
    total_ += {t.single(0)};
  }}
  total_ = block_sum(total_);
  if (gridDim.x > 1) {{
    if (threadIdx.x == 0) partial_[blockIdx.x] = total_;
    if (!comes_last(come_, gridDim.x)) return;
    total_ = 0;
    for (idx b_ = threadIdx.x; b_ < gridDim.x; b_ += blockDim.x) total_ += ((volatile double*)partial_)[b_];
    total_ = block_sum(total_);
  }}
  if (threadIdx.x == 0) out_[0] = real(scale_ * total_) + (add_ ? real(out_[0]) : real(0));
}}
"""


@dataclass(frozen=True)
class Ending:
    """What becomes of a channel's sums ``t<i>_``: C++ parameters, and statements for channel ``k_``. first: see
    ``_Text``."""

    parameters: str
    text: str
    first: str = ""


def plain_ending(count: int, out: str = "real") -> Ending:
    """``scale, add, *outs``: out = [out +] scale · sum."""
    parameters = "double scale_, idx add_" + "".join(f", {out}* out{i}_" for i in range(count))
    text = " ".join(f"out{i}_[k_] = scale_ * t{i}_ + (add_ ? real(out{i}_[k_]) : real(0));" for i in range(count))
    return Ending(parameters, text)


# What formula.batch_moments tells, from the sums of x - first and of its squares.
BATCH_MOMENTS = Ending(
    "double scale_, real eps_, real keep_, real unbias_, real* mean_at_, real* scale_at_, real* means_, real* "
    "variances_, real* count_at_",
    "const double u_ = scale_ * t0_, v_ = scale_ * t1_ - u_ * u_; "
    "const real mean_ = real(first_at_[k_ * p_]) + u_, variance_ = v_ < 0 ? 0 : v_; "
    "mean_at_[k_] = mean_; scale_at_[k_] = real(1) / sqrt(variance_ + eps_); means_[k_] = means_[k_] * keep_ + mean_; "
    "variances_[k_] = variances_[k_] * keep_ + unbias_ * variance_; if (k_ == 0) count_at_[0] = count_at_[0] * keep_ "
    "+ 1;",
    "first",
)


def channel_sums_source(
    formulas: tuple[Formula, ...],
    channels: tuple[str, ...],
    columns: bool,
    types: dict[str, str],
    ending: Ending,
    kept: bool = False,
    sliced: bool = False,
) -> str:
    """``formula_channel_sums(n, c, p, pieces, across, partial, come, <ending>, [kept,] *arrays, *scalars,
    *constants)``.

    A channel is summed in ``pieces``, a block each. columns: P = 1; a block then takes across · K columns, so that
    neighbours read neighbours; of every ``TEAM`` pieces the last block that is done adds them up, and the last of these
    the teams. Otherwise the last one done with a channel adds up its pieces. The order is always the same. kept: an
    array that gets the first formula's values. sliced: for columns; last come the distances between the rows of each
    array and of ``kept``.
    """
    t = _Text(formulas, types, channels, ending.first)
    if columns:
        return _column_sums(
            t, len(formulas), ending, kept, (*t.arrays, *t.scalars, *(["kept"] if kept else [])) if sliced else ()
        )
    assert not sliced
    return _plane_sums(t, len(formulas), ending, kept)


def _sums_head(t: _Text, ending: Ending, kept: bool, sliced: tuple[str, ...] = ()) -> str:
    apart = "".join(f", idx {name}_pitch_" for name in sliced)
    own = f", {t.types['kept']}* kept_" if kept else ""
    return f"""{t.functions}KERNEL formula_channel_sums(idx n_, idx c_, idx p_, idx pieces_, idx across_,
    double* partial_, unsigned* come_, {ending.parameters}{own}{t.parameters}{apart})"""


def _column_sums(t: _Text, count: int, ending: Ending, kept: bool, sliced: tuple[str, ...]) -> str:
    k, every = t.k, range(count)
    fits = (f"{name}_pitch_ % {k} == 0" for name in sliced)
    whole = " && ".join(filter(None, [f"c_ % {k} == 0", *fits, t.wide(*(["kept_"] if kept else []))]))
    at = {name: f"at_ * {name}_pitch_ + k_" if sliced else "at_ * c_ + k_" for name in (*t.each, "kept")}
    few = " ".join(f"const auto {a}_v_ = load_some<{k}>({a}_at_ + k_, false, left_);" for a in t.few)
    packs = " ".join(f"const auto {a}_v_ = load_some<{k}>({a}_at_ + {at[a]}, whole_, left_);" for a in t.each)
    add = " ".join(f"part{s}_[j_] += {t.several(s, True)};" for s in every)
    keep, put = "", ""
    if kept:
        first = f"const real v_ = {t.several(0, True)}; kept_v_.at[j_] = v_; part0_[j_] += v_;"
        add = " ".join([first, *(f"part{s}_[j_] += {t.several(s, True)};" for s in every[1:])])
        keep, put = (
            f"Pack<{t.types['kept']}, {k}> kept_v_;",
            f"store_some<{k}>(kept_ + {at['kept']}, kept_v_, whole_, left_);",
        )
    clear = " ".join(f"double total{s}_[{k}] = {{}};" for s in every)
    begin = " ".join(f"real part{s}_[{k}] = {{}};" for s in every)
    flush = " ".join(f"total{s}_[j_] += part{s}_[j_];" for s in every)
    row = f"{packs} {keep} EACH_OF(j_, {k}) {{ {add} }} {put}"
    sums = " ".join(f"double t{s}_ = block_column_sum<{k}>(total{s}_, across_);" for s in every)
    return f"""{_sums_head(t, ending, kept, sliced)} {{
  {t.read_scalars}
  const bool whole_ = {whole};
  const idx each_ = (n_ + pieces_ - 1) / pieces_, rows_ = blockDim.x / across_, row_ = threadIdx.x / across_;
  const idx width_ = across_ * {k}, groups_ = (c_ + width_ - 1) / width_;
  for (idx b_ = blockIdx.x; b_ < groups_ * pieces_; b_ += gridDim.x) {{
    const idx group_ = b_ / pieces_, piece_ = b_ % pieces_;
    const idx first_ = piece_ * each_, stop_ = first_ + each_ < n_ ? first_ + each_ : n_;
    {clear}
    const idx left_ = c_ - group_ * width_ - threadIdx.x % across_ * {k};
    if (left_ > 0) {{
      const idx k_ = c_ - left_;
      {few}
      idx e_ = first_ + row_;
      for (; e_ + {ROWS - 1} * rows_ < stop_; e_ += {ROWS} * rows_) {{
        {begin}
        EACH_OF(r_, {ROWS}) {{
          const idx at_ = e_ + r_ * rows_;
          {row}
        }}
        EACH_OF(j_, {k}) {{ {flush} }}
      }}
      {begin}
      for (; e_ < stop_; e_ += rows_) {{
        const idx at_ = e_;
        {row}
      }}
      EACH_OF(j_, {k}) {{ {flush} }}
    }}
    {sums}
    {_finish(count)}
    const idx k_ = group_ * width_ + threadIdx.x % across_ * {k} + threadIdx.x / across_;
    if (threadIdx.x < width_ && k_ < c_) {{ {ending.text} }}
  }}
}}
"""


def _finish(count: int) -> str:
    """Adds up the sums of a group's pieces: the last block of each team its team's, the last team all teams'; the other
    blocks are done."""

    def stage(row: str, counter: str, size: str, first: str) -> str:
        put = " ".join(f"mine_[({row} * {count} + {s}) * width_ + threadIdx.x] = t{s}_;" for s in range(count))
        again = " ".join(
            f"t{s}_ = sum_of_rows(mine_ + ({first} * {count} + {s}) * width_, {size}, {count} * width_, width_);"
            for s in range(count)
        )
        return f"""if (threadIdx.x < width_) {{ {put} }}
      if (!comes_last(come_ + group_ * (teams_ + 1) + {counter}, {size})) continue;
      {again}"""

    return f"""if (pieces_ > 1) {{
      const idx teams_ = (pieces_ + {TEAM - 1}) / {TEAM}, team_ = piece_ / {TEAM}, head_ = team_ * {TEAM};
      const idx size_ = pieces_ - head_ < {TEAM} ? pieces_ - head_ : {TEAM};
      double* mine_ = partial_ + group_ * (pieces_ + teams_) * {count} * width_;
      {stage("piece_", "team_", "size_", "head_")}
      if (teams_ > 1) {{
      {stage("(pieces_ + team_)", "teams_", "teams_", "pieces_")}
      }}
    }}"""


def _plane_sums(t: _Text, count: int, ending: Ending, kept: bool) -> str:
    k, every = t.k, range(count)
    fits = " && ".join(filter(None, [f"p_ % {k} == 0", t.wide(*(["kept_"] if kept else []))]))
    clear = " ".join(f"double t{s}_ = 0;" for s in every)
    begin, flush = (" ".join(text.format(s) for s in every) for text in ("real part{0}_ = 0;", "t{0}_ += part{0}_;"))

    def add(value, place: str, into: str) -> str:
        lines = [f"const real v{s}_ = {value(s)};" for s in every]
        lines += [f"{place} = v0_;"] if kept else []  # which may lie where values are read
        return " ".join([*lines, *(f"{into}{s}_ += v{s}_;" for s in every)])

    rows = " ".join(f"t{s}_ = block_sum(t{s}_);" for s in every)
    store = " ".join(f"partial_[({s} * c_ + k_) * pieces_ + piece_] = t{s}_;" for s in every)
    again = " ".join(f"t{s}_ += ((volatile double*)partial_)[({s} * c_ + k_) * pieces_ + r_];" for s in every)
    zero = " ".join(f"t{s}_ = 0;" for s in every)
    return f"""{_sums_head(t, ending, kept)} {{
  {t.read_scalars}
  const bool whole_ = {fits};
  const idx p_each_ = whole_ ? p_ / {k} : p_, count_ = n_ * p_each_, each_ = (count_ + pieces_ - 1) / pieces_;
  for (idx b_ = blockIdx.x; b_ < c_ * pieces_; b_ += gridDim.x) {{
    const idx k_ = b_ / pieces_, piece_ = b_ % pieces_;
    const idx first_ = piece_ * each_, stop_ = first_ + each_ < count_ ? first_ + each_ : count_;
    {t.reads}
    {clear}
    if (whole_)
      for (idx e_ = first_ + threadIdx.x; e_ < stop_; e_ += blockDim.x) {{
        const idx i_ = (e_ / p_each_ * c_ + k_) * p_ + e_ % p_each_ * {k};
        {t.packs()}
        {f"Pack<{t.types['kept']}, {k}> kept_v_;" if kept else ""}
        {begin}
        EACH_OF(j_, {k}) {{ {add(t.several, "kept_v_.at[j_]", "part")} }}
        {flush}
        {"store(kept_ + i_, kept_v_);" if kept else ""}
      }}
    else
      for (idx e_ = first_ + threadIdx.x; e_ < stop_; e_ += blockDim.x) {{
        const idx i_ = (e_ / p_ * c_ + k_) * p_ + e_ % p_;
        {add(t.single, "kept_[i_]", "t")}
      }}
    {rows}
    if (pieces_ > 1) {{
      if (threadIdx.x == 0) {{ {store} }}
      if (!comes_last(come_ + k_, pieces_)) continue;
      {zero}
      for (idx r_ = threadIdx.x; r_ < pieces_; r_ += blockDim.x) {{ {again} }}
      {rows}
    }}
    if (threadIdx.x == 0) {{ {ending.text} }}
  }}
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
