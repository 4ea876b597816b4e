// Rows of a table by number, and the largest numbers.

// out (count, width) = the rows of table (rows, width) that index (count) names, 0 where there is none.
KERNEL take_forward(const real* table, const real* index, real* out, long long* first, unsigned* come, long long* bad, idx rows, idx width,
                    idx count) {
  EACH(at, count * width) {
    idx i = at / width, w = at % width;
    bool there = names(index[i], rows);
    if (!there && w == 0) atomicMin(first, (long long)i + 1);
    out[at] = there ? table[(idx)index[i] * width + w] : real(0);
  }
  if (comes_last(come, gridDim.x) && threadIdx.x == 0) note_bad(first, bad);
}

// dtable [+]= the rows of dout, in order, each to the row that index names: a block a row of the table, which looks for its own. Atomics would need
// no search, but add in another order in each run.
KERNEL take_backward(const real* index, const real* dout, real* dtable, idx keep, idx rows, idx width, idx count) {
  __shared__ byte mine[256];
  for (idx r = blockIdx.x; r < rows; r += gridDim.x) {
    real* row = dtable + r * width;
    if (!keep)
      for (idx w = threadIdx.x; w < width; w += blockDim.x) row[w] = 0;
    for (idx first = 0; first < count; first += blockDim.x) {
      idx i = first + threadIdx.x;
      bool here = i < count && names(index[i], rows) && (idx)index[i] == r;
      mine[threadIdx.x] = here;
      if (__syncthreads_or(here))
        for (idx w = threadIdx.x; w < width; w += blockDim.x)
          for (int k = 0; k < (int)blockDim.x; ++k)
            if (mine[k]) row[w] += dout[(first + k) * width + w];
      __syncthreads();
    }
  }
}

// Whether a at place i is chosen before b at place j: the larger, the first of equals, NaN last.
__device__ bool comes_first(real a, idx i, real b, idx j) {
  if (a != a) return b != b && i < j;
  return b != b || a > b || (a == b && i < j);
}

// The team's first: best at place, or `none` where a member has none.
__device__ void team_first(real& best, idx& place, idx none, idx team) {
  if (team == 32)
    for (int d = 16; d; d >>= 1) {
      real other = __shfl_xor_sync(~0u, best, d);
      idx where = __shfl_xor_sync(~0u, place, d);
      if (where != none && (place == none || comes_first(other, where, best, place))) {
        best = other;
        place = where;
      }
    }
}

// The k largest over axis 1 of x (N, C, P) in order: values and places (N, k, P).
KERNEL top_k(const real* x, real* values, real* places, idx k, idx team, idx n, idx c, idx p) {
  EACH_TEAM(s, n * p) {
    idx base = s / p * c * p + s % p, out = s / p * k * p + s % p, place = -1;
    real last = 0;
    for (idx j = 0; j < k; ++j) {
      real best = 0;
      idx where = c;
      for (idx q = lane; q < c; q += team) {
        real v = x[base + q * p];
        if ((place < 0 || comes_first(last, place, v, q)) && (where == c || comes_first(v, q, best, where))) {
          best = v;
          where = q;
        }
      }
      team_first(best, where, c, team);
      if (lane == 0) {
        values[out + j * p] = best;
        places[out + j * p] = real(where);
      }
      last = best;
      place = where;
    }
  }
}

// y (M, N): the sum of (x - w)^2, or of |x - w|, of each row of x (M, K) and of w (N, K).
KERNEL distances(const real* x, const real* w, real* y, idx squared, idx m, idx n, idx k) {
  EACH(at, m * n) {
    const real *a = x + at / n * k, *b = w + at % n * k;
    real total = 0;
    for (idx i = 0; i < k; ++i) {
      real d = a[i] - b[i];
      total += squared ? d * d : fabs(d);
    }
    y[at] = total;
  }
}

// dx [+]= the gradient of x (M, K) of the distances to w (N, K); dy[m * row + n * column] is the gradient of that of x[m] and w[n].
KERNEL distances_backward(const real* x, const real* w, const real* dy, real* dx, idx keep, idx squared, idx row, idx column, idx m, idx n, idx k) {
  EACH(at, m * k) {
    real total = keep ? dx[at] : real(0);
    for (idx j = 0; j < n; ++j) {
      real d = x[at] - w[j * k + at % k];
      total += dy[at / k * row + j * column] * (squared ? 2 * d : real((d > 0) - (d < 0)));
    }
    dx[at] = total;
  }
}
