// Matching of priors with objects, the choice of hard negatives, and the loss of both: a row of objects is (item, class, instance, xmin, ymin, xmax,
// ymax, difficult). What decides (overlaps, thresholds, ties) is computed as NumPy computes it on the CPU, bit for bit; exp and log differ in the
// last bits. Every choice and every sum has one order.

#define UNMATCHED -1
#define EXCLUDED -2
#define LEAST_OVERLAP real(1e-6)
#define CONFIDENCE real(1.1754943508222875e-38)  // the least probability in a loss
typedef unsigned long long Key;

#ifdef __CUDACC__  // products that are rounded before anything is added to them
__device__ float times(float a, float b) { return __fmul_rn(a, b); }
__device__ double times(double a, double b) { return __dmul_rn(a, b); }
#else
__device__ real times(real a, real b) { return a * b; }
#endif
__device__ real least(real a, real b) { return a < b || a != a ? a : b; }
__device__ real most(real a, real b) { return a > b || a != a ? a : b; }

__device__ real area(const real* b) {
  real width = b[2] - b[0], height = b[3] - b[1];
  return width < 0 || height < 0 ? real(0) : times(width, height);
}

// Intersection over union; 0 where a box is empty, has no area or is NaN.
__device__ real overlap(const real* a, const real* b) {
  real width = least(a[2], b[2]) - most(a[0], b[0]), height = least(a[3], b[3]) - most(a[1], b[1]);
  real common = width >= 0 && height >= 0 ? times(width, height) : real(0), both = area(a) + area(b) - common;
  return common > 0 && both > 0 ? common / both : real(0);
}

// Whether a row's label is a class of objects, and the image of a row that counts; -1: of none.
__device__ bool names_class(const real* row, idx classes, idx background) {
  return names(row[1], classes) && row[1] != background;
}
__device__ idx image_of(const real* row, idx images, idx classes, idx background, idx difficult) {
  bool counts = row[0] > -1 && row[0] < images && (difficult || row[7] == 0);
  return counts && names_class(row, classes, background) ? (idx)row[0] : -1;
}

// order: the rows (count) that count, by image; starts (images + 1): where those of an image begin. first: see note_bad.
KERNEL object_lists(const real* rows, int* order, int* starts, long long* first, idx difficult, idx background, idx classes, idx images, idx count) {
  EACH(at, count + images + 1) {
    const bool listed = at < count;
    const real* row = rows + 8 * at;
    idx image = listed ? image_of(row, images, classes, background, difficult) : at - count, before = 0;
    if (listed && row[0] != -1 && !names_class(row, classes, background)) atomicMin(first, (long long)at + 1);
    if (image < 0) continue;
    for (idx r = 0; r < count; ++r) {
      idx other = image_of(rows + 8 * r, images, classes, background, difficult);
      before += other >= 0 && (other < image || (listed && other == image && r < at));
    }
    if (listed) order[before] = (int)at;
    else starts[image] = (int)before;
  }
}

// Of each prior (images, priors) the object that it overlaps most, where by `threshold` or more (`each`), and by how much.
KERNEL match_priors(const real* rows, const int* order, const int* starts, const real* priors, int* matched, real* overlaps, byte* taken,
                    real threshold, idx each, idx within, idx images, idx count) {
  EACH(at, images * count) {
    const real* prior = priors + at % count * 4;
    bool outside = false;
    EACH_OF(k, 4) outside |= within && (prior[k] < 0 || prior[k] > 1);
    real best = 0;
    int object = UNMATCHED;
    for (idx s = starts[at / count]; s < starts[at / count + 1]; ++s) {
      real common = overlap(prior, rows + order[s] * (idx)8 + 3);
      if (object < 0 || common > best) {
        best = common;
        object = order[s];
      }
    }
    overlaps[at] = best;
    taken[at] = outside;
    matched[at] = outside ? EXCLUDED : each && best > LEAST_OVERLAP && best >= threshold ? object : UNMATCHED;
  }
}

// The block's largest value, at the first place of equal ones; all threads get it. place -1: none.
__device__ void block_first(real& best, idx& place) {
  __shared__ real values[256];
  __shared__ idx places[256];
  __syncthreads();
  values[threadIdx.x] = best;
  places[threadIdx.x] = place;
  for (int half = blockDim.x / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      real other = values[threadIdx.x + half], own = values[threadIdx.x];
      idx there = places[threadIdx.x + half], here = places[threadIdx.x];
      if (there >= 0 && (here < 0 || other > own || (other == own && there < here))) {
        values[threadIdx.x] = other;
        places[threadIdx.x] = there;
      }
    }
  }
  __syncthreads();
  best = values[0];
  place = places[0];
}

// Each object gets the prior that it overlaps most, the largest overlap first: a block an image. best, place: of each object among the priors left.
// A prior that is taken changes the best one of those objects alone that wanted it, so only these look through all priors again.
KERNEL match_objects(const real* rows, const int* order, const int* starts, const real* priors, int* matched, byte* taken, real* best, int* place,
                     idx images, idx count) {
  for (idx image = blockIdx.x; image < images; image += gridDim.x) {
    const idx from = starts[image], to = starts[image + 1];
    idx lost = -1;  // the prior that was taken last
    for (idx round = from; round <= to; ++round) {
      for (idx s = from; s < to; ++s) {
        if (round > from && (best[s] == 0 || place[s] != lost)) continue;
        real own = 0;
        idx where = -1;
        for (idx p = threadIdx.x; p < count; p += blockDim.x) {
          real common = taken[image * count + p] ? real(0) : overlap(priors + 4 * p, rows + order[s] * (idx)8 + 3);
          if (common > LEAST_OVERLAP && common > own) {
            own = common;
            where = p;
          }
        }
        block_first(own, where);
        if (threadIdx.x == 0) {
          best[s] = own;
          place[s] = (int)where;
        }
      }
      __syncthreads();
      idx chosen = -1;
      for (idx s = from; s < to; ++s)
        if (best[s] > 0 && (chosen < 0 || best[s] > best[chosen])) chosen = s;
      lost = chosen < 0 ? -1 : place[chosen];
      __syncthreads();
      if (chosen < 0) break;
      if (threadIdx.x == 0) {
        matched[image * count + lost] = order[chosen];
        taken[image * count + lost] = 1;
        best[chosen] = 0;
      }
      __syncthreads();
    }
  }
}

// What a softmax of `classes` scores is made of: the largest, and the sum of shares of that. Logistic scores have none.
struct Softmax {
  real top, total;
};
__device__ Softmax softmax_of(const real* scores, idx logistic, idx classes) {
  Softmax of = {scores[0], 0};
  if (logistic) return of;
  for (idx k = 1; k < classes; ++k) of.top = most(of.top, scores[k]);
  for (idx k = 0; k < classes; ++k) of.total += exp(scores[k] - of.top);
  return of;
}

// The loss of a prior's scores, of class `wanted`; -1: of none.
__device__ real score_loss(const real* scores, Softmax of, idx wanted, idx logistic, idx classes) {
  if (!logistic) return -log(most(exp(scores[wanted] - of.top) / of.total, CONFIDENCE));
  real total = 0;
  for (idx k = 0; k < classes; ++k) total += most(scores[k], 0) - (k == wanted ? scores[k] : real(0)) + log1p(exp(-fabs(scores[k])));
  return total;
}

// A key that is larger for a larger value, and of equal values for the first place; NaN comes last. No key is 0. Beyond a float's bits values are equal.
__device__ Key key_of(real value, idx place) {
  float v = (float)value + 0.f;
  unsigned bits = 0;
  if (v == v) {
#ifdef __CUDACC__
    bits = __float_as_uint(v);
#else
    bits = host::bits_as<uint32_t>(v);
#endif
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
  }
  return (Key)bits << 32 | (0xFFFFFFFFu - (unsigned)place);
}

// The class that each prior should have, and the key of its loss where it may be a hard negative, else 0.
KERNEL score_keys(const real* scores, const real* rows, const int* matched, const real* overlaps, const int* starts, int* wanted, Key* keys,
                  real most_overlap, idx mines, idx logistic, idx background, idx agnostic, idx classes, idx images, idx count) {
  EACH(at, images * count) {
    const idx image = at / count, object = matched[at];
    idx label = background;
    if (object >= 0) label = agnostic ? background + 1 : (idx)rows[object * 8 + 1];
    else if (!mines && logistic) label = -1;
    wanted[at] = (int)label;
    bool eligible = mines && object == UNMATCHED && overlaps[at] < most_overlap && starts[image + 1] > starts[image];
    const real* mine = scores + at * classes;
    keys[at] = eligible ? key_of(score_loss(mine, softmax_of(mine, logistic, classes), label, logistic, classes), at % count) : 0;
  }
}

// The smallest of the `wanted` largest keys that are not 0, or less: so many keys, or all, are that or more. Digit by digit from the highest, by
// counts: a sort would order thousands of keys of which few are wanted. No two keys are equal, since each has its place in its low bits.
__device__ Key block_select(const Key* keys, idx count, idx wanted) {
  __shared__ unsigned bins[256];
  Key found = 0, known = 0;
  if (wanted <= 0) return ~(Key)0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
    __syncthreads();
    for (idx i = threadIdx.x; i < count; i += blockDim.x)
      if (keys[i] && (keys[i] & known) == found) atomicAdd(bins + (keys[i] >> shift & 255), 1u);
    __syncthreads();
    int digit = 255;
    while (digit >= 0 && wanted > (idx)bins[digit]) wanted -= bins[digit--];
    if (digit < 0) return 1;
    found |= (Key)digit << shift;
    known |= (Key)255 << shift;
    if (wanted == (idx)bins[digit]) break;
  }
  return found;
}

// hard (images): keys from this one on are hard negatives, `ratio` of them for each matched prior. A block an image.
KERNEL hard_negatives(const int* matched, const Key* keys, Key* hard, double ratio, idx images, idx count) {
  __shared__ double positive;
  for (idx image = blockIdx.x; image < images; image += gridDim.x) {
    double sum = 0;
    for (idx p = threadIdx.x; p < count; p += blockDim.x) sum += matched[image * count + p] >= 0;
    sum = block_sum(sum);
    if (threadIdx.x == 0) positive = sum;
    __syncthreads();
    double most = positive * ratio;
    Key from = block_select(keys + image * count, count, most < count ? (idx)most : count);
    if (threadIdx.x == 0) hard[image] = from;
  }
}

// The k-th offset of a box from a prior: of corners (code 1), centers and sizes (2), or corners in units of the prior's sides (3).
__device__ real encoded(const real* box, const real* prior, int k, idx code) {
  if (code != 2) return code == 1 ? box[k] - prior[k] : (box[k] - prior[k]) / (prior[2 + k % 2] - prior[k % 2]);
  real size = box[2 + k % 2] - box[k % 2], side = prior[2 + k % 2] - prior[k % 2];
  return k < 2 ? (box[k] + size / 2 - (prior[k] + side / 2)) / side : log(size / side);
}

// loss[0] = the weighted losses of offsets and scores / divisor[0], and the gradients of both (of the offsets times `weight`) without the division. partial (blocks, 3): the
// blocks' sums, which the last of them adds up. fixed: a divisor, or below 0 for the number of matched priors.
KERNEL multibox_loss(const real* offsets, const real* scores, const real* priors, const real* rows, const int* matched, const int* wanted, const Key* keys,
                     const Key* hard, real* doffsets, real* dscores, real* loss, real* divisor, long long* bad, double* partial, unsigned* come,
                     long long* first, double fixed, double weight, double weigh_offsets, double weigh_scores, idx mines, idx logistic, idx squares, idx code, idx in_target,
                     idx locations, idx classes, idx images, idx count) {
  double sums[3] = {0, 0, 0};  // the losses of offsets and of scores, the matched priors
  EACH(at, images * count) {
    const real *mine = scores + at * classes, *moved = offsets + at * locations * 4;
    const real *prior = priors + at % count * 4, *variances = priors + (count + at % count) * 4;
    const idx object = matched[at];
    const bool counts = !mines || object >= 0 || (keys[at] && keys[at] >= hard[at / count]);
    const Softmax of = softmax_of(mine, logistic, classes);
    for (idx k = 0; k < classes; ++k) {
      real share = logistic ? 1 / (1 + exp(-mine[k])) : exp(mine[k] - of.top) / of.total;
      dscores[at * classes + k] = counts ? share - real(k == wanted[at]) : real(0);
      if (mine[k] != mine[k]) sums[1] += mine[k];  // though nothing is matched: the net has diverged
    }
    for (idx k = 0; k < locations * 4; ++k) {
      doffsets[at * locations * 4 + k] = 0;
      if (moved[k] != moved[k]) sums[1] += moved[k];
    }
    if (counts) sums[1] += score_loss(mine, of, wanted[at], logistic, classes);
    if (object < 0) continue;
    ++sums[2];
    const idx set = locations > 1 ? (idx)rows[object * 8 + 1] * 4 : 0;
    EACH_OF(k, 4) {
      real target = encoded(rows + object * 8 + 3, prior, k, code);
      real far = moved[set + k] - (in_target ? target : target / variances[k]);
      if (in_target) far /= variances[k];
      real size = fabs(far), slope = squares || size < 1 ? far : far > 0 ? real(1) : far < 0 ? real(-1) : far;
      sums[0] += squares || size < 1 ? times(far, far) / 2 : size - real(0.5);
      doffsets[at * locations * 4 + set + k] = real(weight) * (in_target ? slope / variances[k] : slope);
    }
  }
  if (!block_sums_of_all(sums, partial, come, blockIdx.x, gridDim.x) || threadIdx.x) return;
  double by = fixed < 0 ? sums[2] < 1 ? 1 : sums[2] : fixed;
  divisor[0] = by;
  loss[0] = (weigh_offsets * sums[0] + weigh_scores * sums[1]) / by;
  note_bad(first, bad);
}

// The boxes of SSD's predictions, and for each class but the background (a segment) the scores and the keys of those above `least`.
KERNEL ssd_candidates(const real* offsets, const real* scores, const real* priors, real* boxes, real* values, Key* keys, real least, idx background,
                      idx code, idx in_target, idx locations, idx classes, idx images, idx count) {
  const idx labels = classes - (background >= 0), sets = locations > 1 ? labels : 1;
  EACH(at, images * count) {
    const idx p = at % count, image = at / count;
    const real *prior = priors + p * 4, *variances = priors + (count + p) * 4;
    for (idx j = 0; j < sets; ++j) {
      const real* offset = offsets + (at * locations + (locations > 1) * (j + (background >= 0 && j >= background))) * 4;
      real *box = boxes + ((image * sets + j) * count + p) * 4, moved[4];
      EACH_OF(k, 4) moved[k] = in_target ? offset[k] : times(offset[k], variances[k]);
      EACH_OF(k, 2) {
        real side = prior[2 + k] - prior[k], center = prior[k] + side / 2;
        if (code == 2) {
          real size = times(exp(moved[2 + k]), side), middle = times(moved[k], side) + center;
          box[k] = middle - size / 2;
          box[2 + k] = middle + size / 2;
        } else {
          box[k] = prior[k] + (code == 3 ? times(moved[k], side) : moved[k]);
          box[2 + k] = prior[2 + k] + (code == 3 ? times(moved[2 + k], side) : moved[2 + k]);
        }
      }
    }
    for (idx j = 0; j < labels; ++j) {
      real v = scores[at * classes + j + (background >= 0 && j >= background)];
      values[(image * labels + j) * count + p] = v;
      keys[(image * labels + j) * count + p] = v > least ? key_of(v, p) : 0;
    }
  }
}

// The boxes of region proposals, in the order row, column, anchor, clipped to their image (rows of info: height, width, scale), with scores and keys of
// those that are finite; small ones get the score 0, or none where `strict`. base (anchors, 4): the anchors of the first place.
KERNEL region_candidates(const real* scores, const real* offsets, const real* info, const real* base, real* boxes, real* values, Key* keys, real small,
                         idx strict, idx stride, idx wide, idx anchors, idx images, idx height, idx width) {
  const idx area = height * width, count = area * anchors;
  EACH(at, images * count) {
    const idx a = at % anchors, cell = at % count / anchors, image = at / count;
    const real *size = info + image * wide, *moved = offsets + (image * anchors + a) * 4 * area + cell;
    real *box = boxes + at * 4, score = scores[(image * 2 * anchors + anchors + a) * area + cell];
    bool usable = score - score == 0, tiny = false;
    EACH_OF(k, 2) {
      const real shift = real((k ? cell / width : cell % width) * stride), start = base[4 * a + k] + shift;
      const real side = base[4 * a + 2 + k] + shift - start + 1, last = size[1 - k] - 1;
      const real extent = times(exp(least(moved[(2 + k) * area], 60)), side), middle = times(moved[k * area], side) + (start + side / 2);
      box[k] = most(least(middle - extent / 2, last), 0);
      box[2 + k] = most(least(middle + extent / 2, last), 0);
      usable = usable && box[k] - box[k] == 0 && box[2 + k] - box[2 + k] == 0;
      tiny |= box[2 + k] - box[k] + 1 < times(small, size[2]);
    }
    values[at] = tiny ? real(0) : score;
    keys[at] = usable && !(tiny && strict) ? key_of(values[at], at % count) : 0;
  }
}

// bound[segment]: the keys from this one on are the `wanted` largest; counts: how many they are. A block a segment.
KERNEL select_best(const Key* keys, Key* bound, int* counts, idx wanted, idx segments, idx count) {
  for (idx s = blockIdx.x; s < segments; s += gridDim.x) {
    Key from = block_select(keys + s * count, count, wanted);
    double many = 0;
    for (idx i = threadIdx.x; i < count; i += blockDim.x) many += keys[s * count + i] && keys[s * count + i] >= from;
    many = block_sum(many);
    if (threadIdx.x == 0) {
      bound[s] = from;
      counts[s] = (int)many;
    }
  }
}

// order (segments, wanted): the places of the selected keys, the largest first. A key's rank is how many are larger: more comparisons than a sort
// has, but one launch, in which no thread waits for another.
KERNEL sort_best(const Key* keys, const Key* bound, int* order, idx wanted, idx segments, idx count) {
  EACH(at, segments * count) {
    const idx s = at / count;
    if (keys[at] == 0 || keys[at] < bound[s]) continue;
    idx before = 0;
    for (idx i = 0; i < count; ++i) before += keys[s * count + i] > keys[at];
    order[s * wanted + before] = (int)(at % count);
  }
}

// Whether a box drops a later one. pixels: as R-CNN computes it, for boxes that reach from min to max + 1.
__device__ bool drops(const real* a, const real* b, real limit, idx pixels) {
  if (!pixels) return overlap(a, b) > limit;
  real width = least(a[2], b[2]) - most(a[0], b[0]) + 1, height = least(a[3], b[3]) - most(a[1], b[1]) + 1;
  real common = times(most(width, 0), most(height, 0));
  return common / (times(a[2] - a[0] + 1, a[3] - a[1] + 1) + times(b[2] - b[0] + 1, b[3] - b[1] + 1) - common) > limit;
}

// Suppression is a chain, as each box that stays decides on the later ones; overlaps are not. So all of these are computed first, as bits, and the
// chain then reads 64 at a time.
// masks (segments, wanted, words): bit j of a box is 1 where the box, as one that stays, drops the later box j. `each` segments share their boxes.
KERNEL overlap_masks(const real* boxes, const int* order, const int* counts, Key* masks, real limit, idx pixels, idx each, idx words, idx wanted,
                     idx segments, idx count) {
  EACH(at, segments * wanted * words) {
    const idx w = at % words, i = at / words % wanted, s = at / (words * wanted);
    const real* of = boxes + s / each * count * 4;
    Key bits = 0;
    for (idx j = w * 64; i < counts[s] && j < w * 64 + 64 && j < counts[s]; ++j)
      if (j > i && drops(of + order[s * wanted + i] * (idx)4, of + order[s * wanted + j] * (idx)4, limit, pixels)) bits |= (Key)1 << (j - w * 64);
    masks[at] = bits;
  }
}

// rows (segments, wanted, 5): score and box of those that stay, the best first, up to `enough` or some more; counts: how many. A block a segment.
KERNEL suppressed(const real* boxes, const real* values, const int* order, const Key* masks, Key* dropped, int* counts, real* rows, idx enough, idx each,
                  idx words, idx wanted, idx segments, idx count) {
  __shared__ Key chunk[64];
  __shared__ Key stay;
  for (idx s = blockIdx.x; s < segments; s += gridDim.x) {
    Key* lost = dropped + s * words;
    const Key* mine = masks + s * wanted * words;
    const idx many = counts[s];
    idx kept = 0;
    for (idx w = threadIdx.x; w < words; w += blockDim.x) lost[w] = 0;
    for (idx w = 0; w * 64 < many && kept < enough; ++w) {
      const idx left = many - w * 64 < 64 ? many - w * 64 : 64;
      __syncthreads();
      if (threadIdx.x < left) chunk[threadIdx.x] = mine[(w * 64 + threadIdx.x) * words + w];
      __syncthreads();
      if (threadIdx.x == 0) {
        Key off = lost[w], on = 0;
        for (int j = 0; j < left; ++j)
          if (!(off >> j & 1)) {
            on |= (Key)1 << j;
            off |= chunk[j];
          }
        stay = on;
      }
      __syncthreads();
      const Key on = stay;
      for (idx v = w + 1 + threadIdx.x; v < words; v += blockDim.x) {
        Key bits = lost[v];
        for (int j = 0; j < left; ++j)
          if (on >> j & 1) bits |= mine[(w * 64 + j) * words + v];
        lost[v] = bits;
      }
      idx place = kept;
      for (int j = 0; j < left; ++j) {
        if (!(on >> j & 1)) continue;
        if (place % blockDim.x == threadIdx.x) {
          const idx p = order[s * wanted + w * 64 + j];
          real* row = rows + (s * wanted + place) * 5;
          row[0] = values[s * count + p];
          EACH_OF(k, 4) row[1 + k] = boxes[(s / each * count + p) * 4 + k];
        }
        ++place;
      }
      kept = place;
    }
    __syncthreads();
    if (threadIdx.x == 0) counts[s] = (int)kept;
  }
}
