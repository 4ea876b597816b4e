// The scale of a loss whose gradients are of fp16 numbers.

// state: the factor that scaled these gradients, how many iterations in a row were good, 1 / that factor, and whether to skip the update.
// square: the sum of the gradients' squares, finite where each of them is.
KERNEL settle_scale(const real* square, real* state, real patience, real least, real most) {
  if (threadIdx.x) return;
  real factor = state[0];
  bool good = square[0] - square[0] == 0;
  state[2] = 1 / factor;
  state[3] = !good;
  state[1] = good ? state[1] + 1 : real(0);
  if (!good) factor = factor / 2 > least ? factor / 2 : least;
  if (state[1] == patience) {
    factor = 2 * factor < most ? 2 * factor : most;
    state[1] = 0;
  }
  state[0] = factor;
}
