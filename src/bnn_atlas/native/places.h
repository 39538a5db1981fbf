// Where everything lies in the workspace.
#pragma once
#include "gradient.h"
#include "lanes.h"

namespace bnn_atlas {

namespace {

constexpr int MOST_LAYERS = 64;
// Rows of a block: many, since every block loads and stores all sums once, but such that its units stay in the
// second-level cache; a multiple of those of a tile.
constexpr int HIDDEN = 65536, MOST_ROWS = 512, LEAST_ROWS = 128, GRAIN = 64;

inline bool keeps_slopes(Activation a) { return a == SILU || a == GELU; }

// In floats, but `rows` of a block, the `stride` of units in them, and the first parameters of each layer. Units, their
// slopes and the slopes by them are [unit][row].
struct Places {
  int rows, stride;
  int64_t x, y, weights, labels, units[MOST_LAYERS + 1], slopes[MOST_LAYERS + 1], by[MOST_LAYERS + 1];
  int64_t log_likelihood, by_noise, sums, totals, end, parameters[MOST_LAYERS + 1];
};

inline Places places_of(const Network& n) {
  Places p;
  int hidden = 1;
  for (int l = 1; l < n.layers; l++) hidden += n.widths[l];
  p.rows = HIDDEN / hidden / GRAIN * GRAIN;
  p.rows = p.rows < LEAST_ROWS ? LEAST_ROWS : p.rows > MOST_ROWS ? MOST_ROWS : p.rows;
  p.stride = p.rows + LOGICAL;  // units a power of two apart would fall into the same lines of the cache
  int64_t next = 0, parameters = 0;
  const auto place = [&](int64_t count) {
    next += count;
    return next - count;
  };
  p.x = place(n.widths[0] * p.stride);
  p.y = place(p.stride);
  p.labels = place(p.stride);
  p.weights = place(p.stride);
  for (int l = 0; l < n.layers; l++) {
    const int64_t units = n.widths[l + 1], size = units * p.stride;
    p.units[l + 1] = place(size);
    p.slopes[l + 1] = place(keeps_slopes(n.activation) ? size : 0);
    p.by[l + 1] = place(size);
    p.parameters[l] = parameters;
    parameters += units * (n.widths[l] + n.bias);
  }
  p.parameters[n.layers] = parameters;
  p.log_likelihood = place(LOGICAL);
  p.by_noise = place(LOGICAL);
  p.sums = place((parameters + 4) * LOGICAL);  // and the noise, up to a multiple of four
  p.totals = place(2 * (parameters + 1));
  p.end = next;
  return p;
}

// A block of rows: `count` of them, and zeros up to a multiple of 16.
struct Block {
  const float *x, *y, *weights;
  const int* labels;
  int64_t x_stride;
  int count, padded;
};

}  // namespace

}  // namespace bnn_atlas
