// Pixels to numbers: crop, mean, mirror and scale in one pass.

// out (N, C, h, w) = (pixels - mean) * scale, all in float; last: out is (N, h, w, C) in memory. The pixels are bytes or floats; the other is null.
// labels_out = labels, so many numbers; or null. picks (N, 4): which pixels, top, left, whether mirrored. *_step: how far apart in memory images,
// channels, rows and columns are; the mean's are 0 where it has one number a channel; cut, cut_mean: whether it is cropped.
KERNEL preprocess(const byte* bytes, const float* floats, const int* picks, const float* mean, blob* out, float scale, const real* labels, real* labels_out,
                  idx count, idx image_step, idx channel_step, idx row_step, idx column_step, idx mean_channel, idx mean_row, idx mean_column,
                  idx cut_mean, idx cut, idx last, idx n, idx c, idx h, idx w) {
  EACH(at, count) labels_out[at] = labels[at];
  EACH(at, n * c * h * w) {
    const idx step = last ? c : 1;
    idx x = at / step % w, y = at / (step * w) % h, channel = at / (last ? 1 : w * h) % c;
    const int* pick = picks + at / (w * h * c) * 4;
    if (pick[3]) x = w - 1 - x;
    idx top = pick[1], left = pick[2];
    idx from = pick[0] * image_step + channel * channel_step + (y + cut * top) * row_step + (x + cut * left) * column_step;
    float less = mean[channel * mean_channel + (y + cut_mean * top) * mean_row + (x + cut_mean * left) * mean_column];
    out[at] = blob(((bytes ? float(bytes[from]) : floats[from]) - less) * scale);
  }
}
