"""Generates CUDA C that sums formulas per channel."""

from __future__ import annotations

from dataclasses import dataclass

from ..formula import Formula
from .formulas import FormulaText

ROWS = 8  # of a column that are summed in the device's dtype before a sum in float64, which is slow on many GPUs
TEAM = 16  # pieces of a sum, added by the last block that ends


@dataclass(frozen=True)
class Ending:
    """What becomes of a channel's sums ``t<i>_``: C++ parameters, and statements for channel ``k_``. first: see
    ``FormulaText``."""

    parameters: str
    text: str
    first: str = ""


def plain_ending(count: int, out: str = "real") -> Ending:
    """``scale, add, *outs``: out = [out +] scale · sum."""
    parameters = "double scale_, idx add_" + "".join(f", {out}* out{i}_" for i in range(count))
    text = " ".join(f"out{i}_[k_] = scale_ * t{i}_ + (add_ ? real(out{i}_[k_]) : real(0));" for i in range(count))
    return Ending(parameters, text)


# The results of formula.batch_moments, from the sums of x - first and of its squares.
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
    t = FormulaText(formulas, types, channels, ending.first)
    if columns:
        return _column_sums(
            t, len(formulas), ending, kept, (*t.arrays, *t.scalars, *(["kept"] if kept else [])) if sliced else ()
        )
    assert not sliced
    return _plane_sums(t, len(formulas), ending, kept)


def _sums_head(t: FormulaText, ending: Ending, kept: bool, sliced: tuple[str, ...] = ()) -> str:
    apart = "".join(f", idx {name}_pitch_" for name in sliced)
    own = f", {t.types['kept']}* kept_" if kept else ""
    return f"""{t.functions}KERNEL formula_channel_sums(idx n_, idx c_, idx p_, idx pieces_, idx across_,
    double* partial_, unsigned* come_, {ending.parameters}{own}{t.parameters}{apart})"""


def _column_sums(t: FormulaText, count: int, ending: Ending, kept: bool, sliced: tuple[str, ...]) -> str:
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


def _plane_sums(t: FormulaText, count: int, ending: Ending, kept: bool) -> str:
    k, every = t.k, range(count)
    fits = " && ".join(filter(None, [f"p_ % {k} == 0", t.wide(*(["kept_"] if kept else []))]))
    clear = " ".join(f"double t{s}_ = 0;" for s in every)
    begin, flush = (" ".join(text.format(s) for s in every) for text in ("real part{0}_ = 0;", "t{0}_ += part{0}_;"))

    def add(value, place: str, into: str) -> str:
        lines = [f"const real v{s}_ = {value(s)};" for s in every]
        lines += [f"{place} = v0_;"] if kept else []  # the output may overlap an input
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
