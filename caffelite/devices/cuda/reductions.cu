// Softmax, its loss, scores. Every sum has one order, whatever the number of multiprocessors.

// A team's y = exp(x - max) of C numbers, P apart; returns their sum.
__device__ real team_exponentials(const real* x, real* y, idx lane, idx team, idx c, idx p) {
  real top = x[0], total = 0;
  for (idx k = lane; k < c; k += team) top = x[k * p] > top ? x[k * p] : top;
  top = team_max(top, team);
  for (idx k = lane; k < c; k += team) total += y[k * p] = exp(x[k * p] - top);
  return team_sum(total, team);
}

// y = exp(x - max) / sum over axis 1 of (N, C, P).
KERNEL softmax_forward(const real* x, real* y, idx team, idx n, idx c, idx p) {
  EACH_TEAM(s, n * p) {
    idx base = s / p * c * p + s % p;
    real total = team_exponentials(x + base, y + base, lane, team, c, p);
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

// The factor of a label's loss. weights (C), or null: by label; a label that is no class has none.
__device__ real factor_of(const real* weights, real given, idx c) {
  return !weights ? real(1) : given >= 0 && given < c ? weights[(idx)given] : real(0);
}

// gradient, or null: what softmax_loss_backward would make of a loss's gradient of `weight`; `fixed` is a divisor then.
// prob = softmax of x over axis 1 of (N, C, P); loss[0] = -sum of log max(prob[label], tiny) / divisor[0]; divisor: `fixed`, or the labels that
// count where it is negative. total_loss, or null, gets weight · loss added. partial (blocks, 2): the blocks' sums and counts, which the last of
// them adds up. weights (C), or null: factors of the losses by label; a label counts as its factor then.
KERNEL softmax_loss(const real* x, const real* label, const real* weights, real* prob, real* gradient, real* loss, real* total_loss, real weight, real* divisor, long long* bad,
                    double* partial, unsigned* come, long long* first, real ignore, idx ignoring, double fixed, real tiny, idx team, idx n,
                    idx c, idx p) {
  double sums[2] = {0, 0};  // of the losses, and of the labels that count
  const real slope = weight / real(fixed > 1 ? fixed : 1);
  EACH_TEAM(s, n * p) {
    idx base = s / p * c * p + s % p;
    real given = label[s], mine = 0;
    const bool counts = !(ignoring && given == ignore);
    const real factor = factor_of(weights, given, c);
    const real sum = team_exponentials(x + base, prob + base, lane, team, c, p);
    for (idx k = lane; k < c; k += team) {
      real v = prob[base + k * p] / sum;
      prob[base + k * p] = v;
      if (k == given) mine = v;
      if (gradient) gradient[base + k * p] = counts ? (v - real(k == given)) * slope * factor : real(0);
    }
    if (!counts) continue;
    if (!names(given, c)) {
      if (lane == 0) atomicMin(first, (long long)s + 1);
    } else if ((idx)given % team == lane) {
      sums[0] -= double(log(mine < tiny ? tiny : mine)) * factor;
      sums[1] += factor;
    }
  }
  if (!block_sums_of_all(sums, partial, come, blockIdx.x, gridDim.x) || threadIdx.x) return;
  double by = fixed < 0 ? sums[1] : fixed;
  divisor[0] = by > (weights && fixed < 0 ? 0 : 1) ? by : 1;
  loss[0] = sums[0] / divisor[0];
  if (total_loss) total_loss[0] += weight * loss[0];
  note_bad(first, bad);
}

// dx = (prob - onehot(label)) · dloss / divisor over (N, C, P); 0 where the label (N, P) is ignored.
KERNEL softmax_loss_backward(const real* prob, const real* label, const real* weights, const real* dloss, const real* divisor, real* dx,
                             real ignore, idx ignoring, idx n, idx c, idx p) {
  real scale = dloss[0] / divisor[0];
  EACH(i, n * c * p) {
    real given = label[i / (c * p) * p + i % p];
    const real factor = factor_of(weights, given, c);
    dx[i] = ignoring && given == ignore ? real(0) : (prob[i] - real(i / p % c == given)) * scale * factor;
  }
}

// score[0] = hits / samples; per_class (C, or null) the same for each class, of seen (C) samples; a label is hit that is among its top_k scores,
// a tie and a NaN are not. counts (2, C), samples and hits, are 0 before and after. Whole numbers: the order of the atomics does not matter.
KERNEL accuracy(const real* x, const real* label, real* score, real* per_class, unsigned* counts, unsigned* seen, unsigned* come, long long* first,
                long long* bad, idx top_k, real ignore, idx ignoring, idx team, idx n, idx c, idx p) {
  EACH_TEAM(s, n * p) {
    real given = label[s];
    if (ignoring && given == ignore) continue;
    if (!names(given, c)) {
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
  if (!comes_last(come, gridDim.x)) return;
  double hits = 0, counted = 0;
  for (idx k = threadIdx.x; k < c; k += blockDim.x) {
    unsigned all = atomicExch(counts + k, 0u), right = atomicExch(counts + c + k, 0u);
    if (per_class) per_class[k] = all ? real(right) / real(all) : real(0);
    seen[k] = all;
    counted += all;
    hits += right;
  }
  hits = block_sum(hits);
  counted = block_sum(counted);
  if (threadIdx.x) return;
  score[0] = counted > 0 ? hits / counted : 0;
  note_bad(first, bad);
}

// y (M, N) = x (M, K) w^T + b, w (N, K), b (N) or null; then a leaky ReLU where `relu` says so. A warp makes a number: for few of them.
KERNEL product_few(const real* x, const real* w, const real* b, real* y, real slope, idx relu, idx m, idx n, idx k) {
  const idx team = 32;
  const bool whole = k % 4 == 0 && wide<4>(x) && wide<4>(w);
  EACH_TEAM(s, m * n) {
    const real *row = x + s / n * k, *column = w + s % n * k;
    real total = 0;
    for (idx i = 4 * lane; i < k; i += 4 * team) {
      const auto a = load_some<4>(row + i, whole, k - i), c = load_some<4>(column + i, whole, k - i);
      EACH_OF(j, 4) total += a.at[j] * c.at[j];
    }
    total = team_sum(total, team);
    if (lane) continue;
    total += b ? b[s % n] : real(0);
    y[s] = relu && !(total > 0) ? slope * total : total;
  }
}
