// Connectionist temporal classification of scores (T, N, C). State 2i + 1 of a sequence is its label i, an even state a blank; a path goes from a
// state to itself, the next one, or past a blank between two different labels. Logarithms are double: of long sequences they are sums of
// thousands of terms, whose differences are the gradient.

enum { ROWS, INDICATED, COUNTED };  // forms of labels, as sequences.py numbers them

// ln(e^a + e^b), also of -infinity.
__device__ double log_sum(double a, double b) {
  if (a == b) return a + log(2.0);
  return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}
__device__ double never() { return log(0.0); }

// Notes what is wrong with sequence n: the first kind of mistake, then the first sequence.
__device__ void note_mistake(long long* first, idx kind, idx n, idx count) { atomicMin(first, (long long)(kind * count + n) + 1); }

// How many steps and labels of sequence n count.
__device__ void extents(const real* labels, const real* starts, const real* counts, idx n, idx& length, idx& end, long long* first, idx form, idx read,
                        idx steps, idx count, idx most) {
  length = read;
  end = most;
  if (form == INDICATED) {
    for (end = 0; end < most && !(labels[end * count + n] < 0);) ++end;
    for (length = 1; length < steps && !(fabs(starts[length * count + n]) <= real(0.5));) ++length;
    if (end == 0 && length <= 1) length = 0;
  } else if (form == COUNTED) {
    const bool known = names(counts[n], most + 1), runs = names(starts[n], steps + 1);
    if (!known) note_mistake(first, 0, n, count);
    if (!runs) note_mistake(first, 2, n, count);
    end = known ? (idx)counts[n] : 0;
    length = runs ? (idx)starts[n] : 0;
  }
}

// states (N, S = 2 most + 1) of each sequence; next: the next state of the same class, -1 behind the last one, heads: whether it is the first one;
// ends: the labels of each sequence; lengths: its steps. A block a sequence.
KERNEL ctc_states(const real* labels, const real* starts, const real* counts, int* states, int* next, byte* heads, int* ends, int* lengths,
                  long long* first, unsigned* come, long long* bad, idx form, idx collapse, idx blank, idx read, idx classes, idx steps, idx count,
                  idx most) {
  const idx width = 2 * most + 1;
  for (idx n = blockIdx.x; n < count; n += gridDim.x) {
    int* mine = states + n * width;
    if (threadIdx.x == 0) {
      idx length, end, own = 0;
      extents(labels, starts, counts, n, length, end, first, form, read, steps, count, most);
      const idx from = form == ROWS ? n * most : n, apart = form == ROWS ? 1 : count;
      for (idx i = 0; i < end; ++i) {
        const real label = labels[from + i * apart];
        if (label == real(blank) || (collapse && i && label == labels[from + (i - 1) * apart])) continue;
        const bool known = names(label, classes);
        if (!known) note_mistake(first, 1, n, count);
        mine[2 * own++ + 1] = known ? (int)label : 0;
      }
      for (idx i = 0; i <= own; ++i) mine[2 * i] = (int)blank;
      ends[n] = (int)own;
      lengths[n] = (int)length;
    }
    __syncthreads();
    const idx last = 2 * ends[n];
    for (idx s = threadIdx.x; s <= last; s += blockDim.x) {
      idx after = s + 1, before = s - 1;
      while (after <= last && mine[after] != mine[s]) ++after;
      while (before >= 0 && mine[before] != mine[s]) --before;
      next[n * width + s] = after <= last ? (int)after : -1;
      heads[n * width + s] = before < 0;
    }
  }
  if (comes_last(come, gridDim.x) && threadIdx.x == 0) note_bad(first, bad);
}

// norms (T, N): the logarithm of the sum of the exponentials of each step's scores.
KERNEL ctc_norms(const real* scores, double* norms, idx classes, idx rows) {
  const idx team = 32;
  EACH_TEAM(row, rows) {
    const real* mine = scores + row * classes;
    double top = mine[0], total = 0;
    for (idx c = lane; c < classes; c += team) top = mine[c] > top ? (double)mine[c] : top;
    top = team_max(top, team);
    for (idx c = lane; c < classes; c += team) total += exp(mine[c] - top);
    total = team_sum(total, team);
    if (lane == 0) norms[row] = top + log(total);
  }
}

// A path may enter state s past a blank.
__device__ bool skips(const int* states, idx s, idx blank) { return s >= 2 && states[s] != blank && states[s] != states[s - 2]; }

// paths (N, T, S): the logarithm of the sum over the paths to each state, that step included; totals (N): over those that spell all labels; loss[0]: their
// mean, where a sequence that cannot be spelled adds 0. A block a sequence, whose steps follow each other.
KERNEL ctc_forward(const real* scores, const double* norms, const int* states, const int* ends, const int* lengths, double* paths, double* totals,
                   real* loss, double* partial, unsigned* come, idx blank, idx classes, idx steps, idx count, idx width) {
  double sums[1] = {0};
  for (idx n = blockIdx.x; n < count; n += gridDim.x) {
    const int* mine = states + n * width;
    const idx last = 2 * ends[n], length = lengths[n];
    double* row = paths + n * steps * width;
    for (idx t = 0; t < length; ++t, row += width) {
      const real* here = scores + (t * count + n) * classes;
      for (idx s = threadIdx.x; s <= last; s += blockDim.x) {
        double total = s < 2 ? 0 : never();
        if (t > 0) {
          const double* before = row - width;
          total = s ? log_sum(before[s], before[s - 1]) : before[s];
          if (skips(mine, s, blank)) total = log_sum(total, before[s - 2]);
        }
        row[s] = total + (here[mine[s]] - norms[t * count + n]);
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      double total = last ? never() : 0.0;
      if (length > 0) total = last ? log_sum(row[last - width], row[last - 1 - width]) : row[-width];
      totals[n] = total;
      sums[0] -= total == never() ? 0 : total;
    }
  }
  if (block_sums_of_all(sums, partial, come, blockIdx.x, gridDim.x) && threadIdx.x == 0) loss[0] = real(sums[0] / count);
}

// dscores = the gradient of the sum of the losses times dloss[0]; 0 behind a sequence's end, and of one that cannot be spelled. rest (N, 2, S): of this
// step and the one behind it, the paths from each state to the end, that step excluded; shares (N, S): how much of all paths goes through a state. A block a sequence.
KERNEL ctc_backward(const real* scores, const double* norms, const int* states, const int* next, const byte* heads, const int* ends, const int* lengths,
                    const double* paths, const double* totals, const real* dloss, real* dscores, double* rest, double* shares, idx blank, idx classes,
                    idx steps, idx count, idx width) {
  for (idx n = blockIdx.x; n < count; n += gridDim.x) {
    const int* mine = states + n * width;
    const idx last = 2 * ends[n], length = totals[n] == never() ? 0 : lengths[n];
    double* share = shares + n * width;
    for (idx t = steps - 1; t >= 0; --t) {
      const idx at = (t * count + n) * classes;
      real* slope = dscores + at;
      const double norm = norms[t * count + n];
      for (idx c = threadIdx.x; c < classes; c += blockDim.x) slope[c] = t < length ? real(dloss[0] * exp(scores[at + c] - norm)) : real(0);
      if (t >= length) continue;
      double* now = rest + (2 * n + t % 2) * width;
      const double* later = rest + (2 * n + (t + 1) % 2) * width;
      const real* there = scores + at + count * classes;
      for (idx s = threadIdx.x; s <= last; s += blockDim.x) {
        double total = s >= last - 1 ? 0 : never();
        if (t + 1 < length) {
          const double after = norms[(t + 1) * count + n];
          total = later[s] + (there[mine[s]] - after);
          if (s < last) total = log_sum(total, later[s + 1] + (there[mine[s + 1]] - after));
          if (s + 2 <= last && skips(mine, s + 2, blank)) total = log_sum(total, later[s + 2] + (there[mine[s + 2]] - after));
        }
        now[s] = total;
        share[s] = exp(paths[(n * steps + t) * width + s] + total - totals[n]);
      }
      __syncthreads();
      for (idx s = threadIdx.x; s <= last; s += blockDim.x) {
        if (!heads[n * width + s]) continue;
        double total = 0;  // of all states of a class, in their order: no atomics, one result
        for (idx other = s; other >= 0; other = next[n * width + other]) total += share[other];
        slope[mine[s]] = real(dloss[0] * (exp(scores[at + mine[s]] - norm) - total));
      }
      __syncthreads();
    }
  }
}
