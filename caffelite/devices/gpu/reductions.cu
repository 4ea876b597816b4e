// Sums, softmax, losses and scores. Every sum has one order, whatever the number of multiprocessors.

// The members of a team agree on the result.
__device__ real team_sum(real v, idx team) {
  if (team == 32)
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  return v;
}
__device__ real team_max(real v, idx team) {
  if (team == 32)
    for (int d = 16; d; d >>= 1) {
      real other = __shfl_xor_sync(~0u, v, d);
      v = other > v || other != other ? other : v;
    }
  return v;
}

// y = exp(x - max) / sum over axis 1 of (N, C, P).
KERNEL softmax_forward(const real* x, real* y, idx team, idx n, idx c, idx p) {
  EACH_TEAM(s, n * p) {
    idx base = s / p * c * p + s % p;
    real top = x[base];
    for (idx k = lane; k < c; k += team) {
      real v = x[base + k * p];
      top = v > top ? v : top;
    }
    top = team_max(top, team);
    real total = 0;
    for (idx k = lane; k < c; k += team) {
      real e = exp(x[base + k * p] - top);
      y[base + k * p] = e;
      total += e;
    }
    total = team_sum(total, team);
    for (idx k = lane; k < c; k += team) y[base + k * p] /= total;
  }
}

// dx = (dy - sum of dy·y) y over axis 1 of (N, C, P).
KERNEL softmax_backward(const real* y, const real* dy, real* dx, idx team, idx n, idx c, idx p) {
  EACH_TEAM(s, n * p) {
    idx base = s / p * c * p + s % p;
    real dot = 0;
    for (idx k = lane; k < c; k += team) dot += dy[base + k * p] * y[base + k * p];
    dot = team_sum(dot, team);
    for (idx k = lane; k < c; k += team) dx[base + k * p] = (dy[base + k * p] - dot) * y[base + k * p];
  }
}

__device__ void finish_loss(double total, double counted, double fixed, real* loss, real* divisor, long long* first, long long* bad) {
  double by = fixed < 0 ? counted : fixed;
  divisor[0] = by > 1 ? by : 1;
  loss[0] = total / divisor[0];
  note_bad(first, bad);
}

// loss[0] = -sum of log max(prob[label], tiny) / divisor[0]; divisor: `fixed`, or the labels that count where it is negative.
// partial (2, blocks): sums and counts that log_loss_finish adds up; one block needs no second kernel.
KERNEL log_loss(const real* prob, const real* label, real* loss, real* divisor, long long* bad, double* partial, long long* first, real ignore,
                idx ignoring, double fixed, real tiny, idx n, idx c, idx p) {
  double total = 0, counted = 0;
  EACH(i, n * p) {
    real given = label[i];
    if (ignoring && given == ignore) continue;
    if (!(given >= 0 && given < c && given == floor(given))) {
      atomicMin(first, (long long)i + 1);
      continue;
    }
    real v = prob[(i / p * c + (idx)given) * p + i % p];
    total -= log(v < tiny ? tiny : v);
    counted += 1;
  }
  total = block_sum(total);
  counted = block_sum(counted);
  if (threadIdx.x) return;
  if (gridDim.x == 1) {
    finish_loss(total, counted, fixed, loss, divisor, first, bad);
  } else {
    partial[blockIdx.x] = total;
    partial[gridDim.x + blockIdx.x] = counted;
  }
}

KERNEL log_loss_finish(real* loss, real* divisor, long long* bad, const double* partial, long long* first, double fixed, idx blocks) {
  double total = 0, counted = 0;
  for (idx b = threadIdx.x; b < blocks; b += blockDim.x) {
    total += partial[b];
    counted += partial[blocks + b];
  }
  total = block_sum(total);
  counted = block_sum(counted);
  if (threadIdx.x == 0) finish_loss(total, counted, fixed, loss, divisor, first, bad);
}

// counts (2, C) += the samples of each class, and those whose label is among their top_k scores; a tie and a NaN count as wrong.
// Whole numbers, so that the order of the atomics does not matter.
KERNEL accuracy_count(const real* x, const real* label, unsigned* counts, long long* first, idx top_k, real ignore, idx ignoring, idx team, idx n,
                      idx c, idx p) {
  EACH_TEAM(s, n * p) {
    real given = label[s];
    if (ignoring && given == ignore) continue;
    if (!(given >= 0 && given < c && given == floor(given))) {
      if (lane == 0) atomicMin(first, (long long)s + 1);
      continue;
    }
    idx which = (idx)given, base = s / p * c * p + s % p;
    real mine = x[base + which * p], better = 0;
    for (idx k = lane; k < c; k += team) better += real(k != which && !(x[base + k * p] < mine));
    better = team_sum(better, team);
    if (lane) continue;
    atomicAdd(counts + which, 1u);
    if (better < top_k && mine == mine) atomicAdd(counts + c + which, 1u);
  }
}

// score[0] = hits / samples; per_class (C, or null) the same for each class, of seen (C) samples; counts are put back to 0. One block.
KERNEL accuracy_score(unsigned* counts, real* score, real* per_class, unsigned* seen, long long* first, long long* bad, idx c) {
  double hits = 0, counted = 0;
  for (idx k = threadIdx.x; k < c; k += blockDim.x) {
    unsigned all = counts[k], right = counts[c + k];
    if (per_class) per_class[k] = all ? real(right) / real(all) : real(0);
    seen[k] = all;
    counted += all;
    hits += right;
    counts[k] = counts[c + k] = 0;
  }
  hits = block_sum(hits);
  counted = block_sum(counted);
  if (threadIdx.x) return;
  score[0] = counted > 0 ? hits / counted : 0;
  note_bad(first, bad);
}
