// Products of weights with the units of rows, and of slopes with units, in tiles that stay in registers.
#pragma once
#include "lanes.h"

namespace {

#if defined(__AVX512F__)
constexpr int TILE_OUT = 4, TILE_ROWS = 4, TILE_IN = 4;
#else
constexpr int TILE_OUT = 4, TILE_ROWS = 2, TILE_IN = 2;
#endif

// out[o][row] = finish(start[o] + sum_i m[o * by_out + i * by_in] in[i][row]) for a tile of o and rows.
template <int OUT, int ROWS, class Finish>
inline void product_tile(const float* m, int64_t by_out, int64_t by_in, int terms, const float* start, const float* in,
                         int64_t in_stride, float* out, int64_t out_stride, int unit, int row, Finish finish) {
  Lanes sums[OUT][ROWS];
#pragma GCC unroll 8
  for (int o = 0; o < OUT; o++)
#pragma GCC unroll 8
    for (int j = 0; j < ROWS; j++) sums[o][j] = start ? all(start[unit + o]) : zero();
  const float* factors = m + unit * by_out;
  const float* column = in + row;
  for (int i = 0; i < terms; i++, factors += by_in, column += in_stride) {
    Lanes h[ROWS];
#pragma GCC unroll 8
    for (int j = 0; j < ROWS; j++) h[j] = load(column + j * WIDTH);
#pragma GCC unroll 8
    for (int o = 0; o < OUT; o++) {
      const Lanes factor = all(factors[o * by_out]);
#pragma GCC unroll 8
      for (int j = 0; j < ROWS; j++) sums[o][j] = fused(factor, h[j], sums[o][j]);
    }
  }
#pragma GCC unroll 8
  for (int o = 0; o < OUT; o++)
#pragma GCC unroll 8
    for (int j = 0; j < ROWS; j++)
      store(out + (unit + o) * out_stride + row + j * WIDTH, finish(sums[o][j], unit + o, row + j * WIDTH));
}

template <int OUT, int ROWS, class Finish>
inline int product_tiles(const float* m, int64_t by_out, int64_t by_in, int units, int terms, const float* start,
                         const float* in, int64_t in_stride, float* out, int64_t out_stride, int unit, int row,
                         Finish finish) {
  for (; unit + OUT <= units; unit += OUT)
    product_tile<OUT, ROWS>(m, by_out, by_in, terms, start, in, in_stride, out, out_stride, unit, row, finish);
  return unit;
}

template <class Finish>
void product(const float* m, int64_t by_out, int64_t by_in, int units, int terms, const float* start, const float* in,
             int64_t in_stride, float* out, int64_t out_stride, int rows, Finish finish) {
  int row = 0;
  for (; row + TILE_ROWS * WIDTH <= rows; row += TILE_ROWS * WIDTH) {
    int unit = product_tiles<TILE_OUT, TILE_ROWS>(m, by_out, by_in, units, terms, start, in, in_stride, out, out_stride,
                                                  0, row, finish);
    unit = product_tiles<2, TILE_ROWS>(m, by_out, by_in, units, terms, start, in, in_stride, out, out_stride, unit, row,
                                       finish);
    product_tiles<1, TILE_ROWS>(m, by_out, by_in, units, terms, start, in, in_stride, out, out_stride, unit, row,
                                finish);
  }
  for (; row < rows; row += WIDTH) {
    const int unit =
        product_tiles<8, 1>(m, by_out, by_in, units, terms, start, in, in_stride, out, out_stride, 0, row, finish);
    product_tiles<1, 1>(m, by_out, by_in, units, terms, start, in, in_stride, out, out_stride, unit, row, finish);
  }
}

// sums[o][i][lane] += by[o][row] in[i][row] over the rows of each lane, for a tile of o and i; and for the first i, where
// there are biases, biases[o][lane] += by[o][row].
template <int OUT, int IN, bool BIASES>
inline void outer_tile(const float* by, int64_t by_stride, const float* in, int64_t in_stride, int rows, float* sums,
                       float* biases, int inputs, int o, int i, bool first) {
  for (int part = 0; part < PARTS; part++) {
    float *place = sums + part * WIDTH, *bias = biases + part * WIDTH;
    Lanes total[OUT][IN], slopes[OUT];
#pragma GCC unroll 8
    for (int k = 0; k < OUT; k++) {
#pragma GCC unroll 8
      for (int l = 0; l < IN; l++)
        total[k][l] = first ? zero() : load(place + ((o + k) * inputs + i + l) * LOGICAL);
      if (BIASES) slopes[k] = first ? zero() : load(bias + (o + k) * LOGICAL);
    }
    for (int row = part * WIDTH; row < rows; row += LOGICAL) {
      Lanes h[IN];
#pragma GCC unroll 8
      for (int l = 0; l < IN; l++) h[l] = load(in + (i + l) * in_stride + row);
#pragma GCC unroll 8
      for (int k = 0; k < OUT; k++) {
        const Lanes slope = load(by + (o + k) * by_stride + row);
#pragma GCC unroll 8
        for (int l = 0; l < IN; l++) total[k][l] = fused(slope, h[l], total[k][l]);
        if (BIASES) slopes[k] = add(slopes[k], slope);
      }
    }
#pragma GCC unroll 8
    for (int k = 0; k < OUT; k++) {
#pragma GCC unroll 8
      for (int l = 0; l < IN; l++) store(place + ((o + k) * inputs + i + l) * LOGICAL, total[k][l]);
      if (BIASES) store(bias + (o + k) * LOGICAL, slopes[k]);
    }
  }
}

template <int OUT>
inline void outer_row(const float* by, int64_t by_stride, const float* in, int64_t in_stride, int rows, float* sums,
                      float* biases, int inputs, int o, bool first) {
  int i = 0;
  if (biases && inputs >= TILE_IN) {
    outer_tile<OUT, TILE_IN, true>(by, by_stride, in, in_stride, rows, sums, biases, inputs, o, 0, first);
    i = TILE_IN;
  } else if (biases) {
    outer_tile<OUT, 1, true>(by, by_stride, in, in_stride, rows, sums, biases, inputs, o, 0, first);
    i = 1;
  }
  for (; i + TILE_IN <= inputs; i += TILE_IN)
    outer_tile<OUT, TILE_IN, false>(by, by_stride, in, in_stride, rows, sums, biases, inputs, o, i, first);
  for (; i < inputs; i++) outer_tile<OUT, 1, false>(by, by_stride, in, in_stride, rows, sums, biases, inputs, o, i, first);
}

void outer(const float* by, int64_t by_stride, const float* in, int64_t in_stride, int rows, float* sums, float* biases,
           int outputs, int inputs, bool first) {
  int o = 0;
  for (; o + TILE_OUT <= outputs; o += TILE_OUT)
    outer_row<TILE_OUT>(by, by_stride, in, in_stride, rows, sums, biases, inputs, o, first);
  for (; o + 2 <= outputs; o += 2) outer_row<2>(by, by_stride, in, in_stride, rows, sums, biases, inputs, o, first);
  for (; o < outputs; o++) outer_row<1>(by, by_stride, in, in_stride, rows, sums, biases, inputs, o, first);
}

}  // namespace
