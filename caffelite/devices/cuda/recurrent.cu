// Steps of an LSTM. A row of gates (N, 4D): the sums of i, f, o, g, then σ(i), σ(f), σ(o), tanh(g).

__device__ real sigmoid(real x) { return real(1) / (real(1) + exp(-x)); }

// c (N, D) = k σ(f) before + σ(i) tanh(g), h = σ(o) tanh(c); cont (N): k, where 0 nothing of before.
// hidden (N, D), if any, becomes next · h, for the step that follows.
KERNEL lstm_forward(real* gates, const real* cont, const real* before, real* c, real* h, const real* next, blob* hidden, idx n,
                    idx d) {
  EACH(at, n * d) {
    idx row = at / d, first = row * 4 * d + at % d;
    real i = sigmoid(gates[first]), f = sigmoid(gates[first + d]), o = sigmoid(gates[first + 2 * d]), g = tanh(gates[first + 3 * d]);
    real k = cont[row], now = (k == 0 ? real(0) : k * f * before[at]) + i * g, out = o * tanh(now);
    gates[first] = i;
    gates[first + d] = f;
    gates[first + 2 * d] = o;
    gates[first + 3 * d] = g;
    c[at] = now;
    h[at] = out;
    if (hidden) hidden[at] = next[row] == 0 ? real(0) : next[row] * out;
  }
}

// dgates (N, 4D): the gradients of the sums, from activated gates; dh and, if any, above: the gradient of h; dc: that of c from above, then
// that of the cell before.
KERNEL lstm_backward(const real* gates, const real* cont, const real* before, const real* c, const real* dh, const real* above, real* dc,
                     real* dgates, idx n, idx d) {
  EACH(at, n * d) {
    idx row = at / d, first = row * 4 * d + at % d;
    real i = gates[first], f = gates[first + d], o = gates[first + 2 * d], g = gates[first + 3 * d], k = cont[row];
    real out = tanh(c[at]), slope = dh[at] + (above ? above[at] : real(0)), cell = dc[at] + slope * o * (1 - out * out);
    real kept = k == 0 ? real(0) : cell * k * f;
    dgates[first] = cell * g * i * (1 - i);
    dgates[first + d] = k == 0 ? real(0) : kept * before[at] * (1 - f);
    dgates[first + 2 * d] = slope * out * o * (1 - o);
    dgates[first + 3 * d] = cell * i * (1 - g * g);
    dc[at] = kept;
  }
}
