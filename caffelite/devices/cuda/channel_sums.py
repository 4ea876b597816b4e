"""Generates CUDA C that sums formulas per channel."""

from dataclasses import dataclass

from ..formula import Formula
from .formulas import FormulaText

ROWS = 8  # of a column that are summed in the device's dtype before a sum in float64, which is slow on many GPUs
BATCH = {1: 8, 2: 4}  # rows of so many arrays that a thread reads before it adds; 2 of more arrays
# Threads that sum more than two arrays need more registers than two blocks a multiprocessor leave them.
ONE_BLOCK = '#undef KERNEL\n#define KERNEL extern "C" __global__ void __launch_bounds__(256, 1)\n'
TEAM = 16  # pieces of a sum, added by the last block that ends


@dataclass(frozen=True)
class Ending:
    """What becomes of a channel's sums ``t<i>_``: C++ parameters, and statements for channel ``k_``. first: see
    ``FormulaText``."""

    parameters: str
    text: str
    first: str = ""


def plain_ending(count: int) -> Ending:
    """``scale, add, *outs``: out = [out +] scale · sum."""
    parameters = "double scale_, idx add_" + "".join(f", real* out{i}_" for i in range(count))
    text = " ".join(f"out{i}_[k_] = scale_ * t_[{i}] + (add_ ? real(out{i}_[k_]) : real(0));" for i in range(count))
    return Ending(parameters, text)


# The results of formula_ops.BatchMoments, from the sums of x - first and of its squares.
BATCH_MOMENTS = Ending(
    "double scale_, real eps_, real keep_, real unbias_, real* mean_at_, real* scale_at_, real* means_, real* "
    "variances_, real* count_at_",
    "const double u_ = scale_ * t_[0], v_ = scale_ * t_[1] - u_ * u_; "
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
    neighbors read neighbors; of every ``TEAM`` pieces the last block that is done adds them up, and the last of these
    the teams. Otherwise the last one done with a channel adds up its pieces. The order is always the same. kept: an
    array that gets the first formula's values. sliced: for columns; last come the distances between the rows of each
    array and of ``kept``.
    """
    assert columns or not sliced
    t = FormulaText(formulas, types, channels, columns, ending.first)
    own = f", {types['kept']}* kept_" if kept else ""
    pitched = (*t.arrays, *t.scalars, *(["kept"] if kept else [])) if sliced else ()
    pitches = "".join(f", idx {name}_pitch_" for name in pitched)
    bounds = ONE_BLOCK if columns and len(t.each) > 2 else ""
    return f"""{bounds}{t.functions}KERNEL formula_channel_sums(idx n_, idx c_, idx p_, idx pieces_,
    idx across_, double* partial_, unsigned* come_, {ending.parameters}{own}{t.parameters}{pitches}) {{
  {t.read_scalars}
  {_columns(t, len(formulas), ending, kept, pitched) if columns else _planes(t, len(formulas), ending, kept)}
}}
"""


def _added(values: list[str], into: str, place: str = "") -> str:
    """Adds each formula's value to ``into``, and puts the first one, if any, into a place, which may be an input's."""
    lines = [f"const real v{s}_ = {value};" for s, value in enumerate(values)]
    lines += [f"{place} = v0_;"] if place else []
    return " ".join([*lines, *(f"{into.format(s)} += v{s}_;" for s in range(len(values)))])


def _columns(t: FormulaText, count: int, ending: Ending, kept: bool, pitched: tuple[str, ...]) -> str:
    k, own = t.k, t.types.get("kept")
    fits = (f"{name}_pitch_ % {k} == 0" for name in pitched)
    whole = " && ".join(filter(None, [f"c_ % {k} == 0", *fits, t.wide(*(["kept_"] if kept else []))]))
    at = {name: f"at_ * {name}_pitch_ + k_" if pitched else "at_ * c_ + k_" for name in (*t.each, "kept")}
    few = " ".join(f"const auto {a}_v_ = load_some<{k}>({a}_at_ + k_, false, left_);" for a in t.few)
    packs = " ".join(f"const auto {a}_v_ = load_some<{k}>({a}_at_ + {at[a]}, whole_, left_);" for a in t.each)
    add = _added([t.several(s) for s in range(count)], "part_[{}][j_]", "kept_v_.at[j_]" if kept else "")
    row = f"{f'Pack<{own}, {k}> kept_v_;' if kept else ''} EACH_OF(j_, {k}) {{ {add} }}"
    row += f" store_some<{k}>(kept_ + {at['kept']}, kept_v_, whole_, left_);" if kept else ""
    rows = BATCH.get(len(t.each), 2)
    buffers = " ".join(f"Pack<{t.types[a]}, {k}> {a}_p_[{rows}];" for a in t.each)
    loads = " ".join(f"{a}_p_[r_] = load<{k}>({a}_at_ + {at[a]});" for a in t.each)
    buffered = " ".join(f"const auto& {a}_v_ = {a}_p_[r_];" for a in t.each)
    at_row = f"const idx at_ = e_ + (h_ * {rows} + r_) * rows_;"
    flush = f"EACH_OF(s_, {count}) {{ EACH_OF(j_, {k}) total_[s_][j_] += part_[s_][j_]; }}"
    return f"""const bool whole_ = {whole};
  const idx each_ = (n_ + pieces_ - 1) / pieces_, rows_ = blockDim.x / across_, row_ = threadIdx.x / across_;
  const idx width_ = across_ * {k}, groups_ = (c_ + width_ - 1) / width_;
  for (idx b_ = blockIdx.x; b_ < groups_ * pieces_; b_ += gridDim.x) {{
    const idx group_ = b_ / pieces_, piece_ = b_ % pieces_;
    const idx first_ = piece_ * each_, stop_ = first_ + each_ < n_ ? first_ + each_ : n_;
    double t_[{count}], total_[{count}][{k}] = {{}};
    const idx left_ = c_ - group_ * width_ - threadIdx.x % across_ * {k};
    if (left_ > 0) {{
      const idx k_ = c_ - left_;
      {few}
      idx e_ = first_ + row_;
      if (whole_)
        for (; e_ + {ROWS - 1} * rows_ < stop_; e_ += {ROWS} * rows_) {{
          real part_[{count}][{k}] = {{}};
          EACH_OF(h_, {ROWS // rows}) {{
            {buffers}
            EACH_OF(r_, {rows}) {{ {at_row} {loads} }}
            EACH_OF(r_, {rows}) {{ {at_row if kept else ""} {buffered} {row} }}
          }}
          {flush}
        }}
      for (; e_ + {ROWS - 1} * rows_ < stop_; e_ += {ROWS} * rows_) {{
        real part_[{count}][{k}] = {{}};
        for (int r_ = 0; r_ < {ROWS}; ++r_) {{
          const idx at_ = e_ + r_ * rows_;
          {packs} {row}
        }}
        {flush}
      }}
      real part_[{count}][{k}] = {{}};
      for (; e_ < stop_; e_ += rows_) {{
        const idx at_ = e_;
        {packs} {row}
      }}
      {flush}
    }}
    EACH_OF(s_, {count}) t_[s_] = block_column_sum<{k}>(total_[s_], across_);
    if (!block_sums_of_columns<{TEAM}>(t_, partial_, come_, group_, piece_, pieces_, width_)) continue;
    const idx k_ = group_ * width_ + threadIdx.x % across_ * {k} + threadIdx.x / across_;
    if (threadIdx.x < width_ && k_ < c_) {{ {ending.text} }}
  }}"""


def _planes(t: FormulaText, count: int, ending: Ending, kept: bool) -> str:
    k, own = t.k, t.types.get("kept")
    fits = " && ".join(filter(None, [f"p_ % {k} == 0", t.wide(*(["kept_"] if kept else []))]))
    several = _added([t.several(s) for s in range(count)], "part_[{}]", "kept_v_.at[j_]" if kept else "")
    single = _added([t.single(s) for s in range(count)], "t_[{}]", "kept_[i_]" if kept else "")
    return f"""const bool whole_ = {fits};
  const idx p_each_ = whole_ ? p_ / {k} : p_, count_ = n_ * p_each_, each_ = (count_ + pieces_ - 1) / pieces_;
  for (idx b_ = blockIdx.x; b_ < c_ * pieces_; b_ += gridDim.x) {{
    const idx k_ = b_ / pieces_, piece_ = b_ % pieces_;
    const idx first_ = piece_ * each_, stop_ = first_ + each_ < count_ ? first_ + each_ : count_;
    {t.reads}
    double t_[{count}] = {{}};
    if (whole_)
      for (idx e_ = first_ + threadIdx.x; e_ < stop_; e_ += blockDim.x) {{
        const idx i_ = (e_ / p_each_ * c_ + k_) * p_ + e_ % p_each_ * {k};
        {t.packs()}
        {f"Pack<{own}, {k}> kept_v_;" if kept else ""}
        real part_[{count}] = {{}};
        EACH_OF(j_, {k}) {{ {several} }}
        EACH_OF(s_, {count}) t_[s_] += part_[s_];
        {"store(kept_ + i_, kept_v_);" if kept else ""}
      }}
    else
      for (idx e_ = first_ + threadIdx.x; e_ < stop_; e_ += blockDim.x) {{
        const idx i_ = (e_ / p_ * c_ + k_) * p_ + e_ % p_;
        {single}
      }}
    if (block_sums_of_all(t_, partial_ + k_ * pieces_ * {count}, come_ + k_, piece_, pieces_) && threadIdx.x == 0) {{
      {ending.text}
    }}
  }}"""
