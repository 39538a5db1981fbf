// Log-likelihood of a dense network and its gradient, built once for each instruction set (see `lanes.h`).
//
// Rows go in blocks, with features along the slow axis, and every lane adds up its own rows: row i always goes to lane
// i mod 16, in the order of the rows. So neither the sizes of blocks nor the tiles, which suit the processor, change a
// bit.
#include "gradient.h"

#include <cstring>

#include "activations.h"
#include "likelihoods.h"
#include "places.h"
#include "tiles.h"

namespace bnn_atlas {

namespace {

constexpr int CHUNK = 4096;  // rows that a lane's single-precision sums run over, before they are added in double

inline int64_t number_of(const Rows& rows, int64_t i) {
  const int64_t index = rows.indices[i];
  return index < 0 ? 0 : index >= rows.rows ? rows.rows - 1 : index;
}

// The rows from `begin` on, in place where they lie by feature and fill their last lanes, or else copied.
Block take(const Network& n, const Rows& rows, int64_t begin, int count, const Places& p, float* space) {
  const int padded = (count + LOGICAL - 1) / LOGICAL * LOGICAL;
  const float* targets = static_cast<const float*>(rows.y);
  const int* classes = static_cast<const int*>(rows.y);
  const bool labelled = n.head == CATEGORICAL, ordered = !rows.indices;
  float *x = space + p.x, *y = space + p.y, *weights = space + p.weights;
  int* labels = reinterpret_cast<int*>(space + p.labels);
  if (rows.stride && ordered && count == padded)
    return {rows.x + begin, targets + begin, rows.weights ? rows.weights + begin : nullptr, classes + begin,
            rows.stride,    count,           padded};
  const auto copy = [&](auto* to, const auto* from, int64_t step) {
    for (int r = 0; r < count; r++) to[r] = from[(ordered ? begin + r : number_of(rows, begin + r)) * step];
    std::memset(to + count, 0, (padded - count) * sizeof *to);
  };
  for (int f = 0; f < n.widths[0]; f++)
    copy(x + f * p.stride, rows.stride ? rows.x + f * rows.stride : rows.x + f, rows.stride ? 1 : n.widths[0]);
  if (labelled)
    copy(labels, classes, 1);
  else
    copy(y, targets, 1);
  if (rows.weights) copy(weights, rows.weights, 1);
  return {x, y, rows.weights ? weights : nullptr, labels, p.stride, count, padded};
}

// Outputs of a block, with the hidden units that lead to them.
void forward(const Network& n, const Block& b, const float* theta, const Places& p, float* space) {
  const float* in = b.x;
  int64_t in_stride = b.x_stride;
  for (int l = 0; l < n.layers; l++) {
    const int inputs = n.widths[l], units = n.widths[l + 1];
    const float *start = n.bias ? theta : nullptr, *m = theta + (n.bias ? units : 0);
    const bool last = l + 1 == n.layers;
    float *out = space + p.units[l + 1], *slopes = space + p.slopes[l + 1];
    if (!last && n.activation == RELU)
      product(m, inputs, 1, units, inputs, start, in, in_stride, out, p.stride, b.padded, Relu());
    else
      product(m, inputs, 1, units, inputs, start, in, in_stride, out, p.stride, b.padded, Same());
    if (!last) switch (n.activation) {
        case TANH: activate<false>(Tanh(), out, slopes, units, p.stride, b.padded); break;
        case SIGMOID: activate<false>(Sigmoid(), out, slopes, units, p.stride, b.padded); break;
        case SILU: activate<true>(Silu(), out, slopes, units, p.stride, b.padded); break;
        case GELU: activate<true>(Gelu(), out, slopes, units, p.stride, b.padded); break;
        default: break;
      }
    theta = m + units * inputs;
    in = out;
    in_stride = p.stride;
  }
}

// Slopes by the hidden units before their activation, from those by the outputs.
void backward(const Network& n, const Block& b, const float* theta, const Places& p, float* space) {
  for (int l = n.layers - 1; l > 0; l--) {
    const int inputs = n.widths[l], units = n.widths[l + 1];
    const float* m = theta + p.parameters[l + 1] - static_cast<int64_t>(units) * inputs;
    const float *in = space + p.units[l], *by = space + p.by[l + 1];
    float* back = space + p.by[l];
#define BACK(finish) product(m, 1, inputs, inputs, units, nullptr, by, p.stride, back, p.stride, b.padded, finish)
    switch (n.activation) {
      case IDENTITY: BACK(Same()); break;
      case RELU: BACK((ReluSlope{in, p.stride})); break;
      case TANH: BACK((TanhSlope{in, p.stride})); break;
      case SIGMOID: BACK((SigmoidSlope{in, p.stride})); break;
      default: BACK((KeptSlope{space + p.slopes[l], p.stride})); break;
    }
#undef BACK
  }
}

// Adds the block's slopes by the parameters to their lanes.
void add_slopes(const Network& n, const Block& b, const Places& p, float* space, bool first) {
  for (int l = 0; l < n.layers; l++) {
    const int inputs = n.widths[l], units = n.widths[l + 1];
    const float *in = l ? space + p.units[l] : b.x, *by = space + p.by[l + 1];
    float* biases = space + p.sums + p.parameters[l] * LOGICAL;
    float* weights = biases + (n.bias ? units * LOGICAL : 0);
    outer(by, p.stride, in, l ? p.stride : b.x_stride, b.padded, weights, n.bias ? biases : nullptr, units, inputs,
          first);
  }
}

// Adds the lanes of `count` sums (and of up to three that follow) to totals.
void collect(const float* sums, int64_t count, double* totals, bool first) {
  for (int64_t i = 0; i < count; i += 4) {
    alignas(16) float four[4];
    _mm_store_ps(four, four_sums(sums + i * LOGICAL));
    for (int64_t k = i; k < i + 4 && k < count; k++) totals[k] = (first ? 0.0 : totals[k]) + four[k - i];
  }
}

}  // namespace

namespace ISA {

int64_t workspace(const Network& n) { return places_of(n).end; }

void gradient(const Network& n, const Rows& rows, const float* theta, float* space, float* value, float* slopes) {
  const Places p = places_of(n);
  const int64_t size = parameters(n);
  double* totals = reinterpret_cast<double*>(space + p.totals);
  double log_likelihood = 0;
  for (int64_t chunk = 0; chunk < rows.count; chunk += CHUNK) {
    const int64_t end = chunk + CHUNK < rows.count ? chunk + CHUNK : rows.count;
    const int64_t blocks = (end - chunk + p.rows - 1) / p.rows;
    const int64_t block = ((end - chunk + blocks - 1) / blocks + GRAIN - 1) / GRAIN * GRAIN;
    for (int64_t begin = chunk; begin < end; begin += block) {
      const Block b = take(n, rows, begin, static_cast<int>(end - begin < block ? end - begin : block), p, space);
      forward(n, b, theta, p, space);
      head(n, b, theta, p, space, begin == chunk);
      if (slopes) backward(n, b, theta, p, space);
      if (slopes) add_slopes(n, b, p, space, begin == chunk);
    }
    if (slopes) {
      if (n.head == LEARNED_NOISE)
        std::memcpy(space + p.sums + (size - 1) * LOGICAL, space + p.by_noise, LOGICAL * sizeof(float));
      collect(space + p.sums, size, totals, chunk == 0);
    }
    double sum;
    collect(space + p.log_likelihood, 1, &sum, true);
    log_likelihood += sum;
  }
  *value = static_cast<float>(log_likelihood);
  if (slopes)
    for (int64_t i = 0; i < size; i++) slopes[i] = rows.count ? static_cast<float>(totals[i]) : 0.0f;
}

void function(Function which, const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += WIDTH) {
    float values[WIDTH] = {};
    const int64_t left = count - i < WIDTH ? count - i : WIDTH;
    for (int64_t k = 0; k < left; k++) values[k] = x[i + k];
    const Lanes in = load(values);
    switch (which) {
      case EXP: store(values, exp_of(in)); break;
      case LOG: store(values, log_of(in)); break;
      case LOG1P: store(values, log1p_of(in)); break;
      case TANH_FUNCTION: store(values, tanh_of(in)); break;
      case SIGMOID_FUNCTION: store(values, sigmoid_of(in)); break;
    }
    for (int64_t k = 0; k < left; k++) y[i + k] = values[k];
  }
}

}  // namespace ISA

}  // namespace bnn_atlas
