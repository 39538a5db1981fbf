// Activation functions and their slopes, at the end of a tile or over all units of a layer.
#pragma once
#include "functions.h"
#include "gradient.h"

namespace bnn_atlas {

namespace {

struct Same {
  Lanes operator()(Lanes a, int, int) const { return a; }
};

struct Relu {
  Lanes operator()(Lanes a, int, int) const { return largest(zero(), a); }
};

// Slopes by what the forward pass kept, [unit][row]; each takes a sum, a unit and a row.
struct ReluSlope {
  const float* hidden;
  int64_t block;
  Lanes operator()(Lanes a, int unit, int row) const {
    return if_set(less(zero(), load(hidden + unit * block + row)), a);
  }
};

struct TanhSlope {
  const float* hidden;
  int64_t block;
  Lanes operator()(Lanes a, int unit, int row) const {
    const Lanes h = load(hidden + unit * block + row);
    return multiply(a, fused_minus(h, h, all(1.0f)));
  }
};

struct SigmoidSlope {
  const float* hidden;
  int64_t block;
  Lanes operator()(Lanes a, int unit, int row) const {
    const Lanes h = load(hidden + unit * block + row);
    return multiply(multiply(a, h), subtract(all(1.0f), h));
  }
};

struct KeptSlope {
  const float* slopes;
  int64_t block;
  Lanes operator()(Lanes a, int unit, int row) const { return multiply(a, load(slopes + unit * block + row)); }
};

struct Activated {
  Lanes value, slope;
};

// Those whose slopes follow from the value leave them to the backward pass.
struct Tanh {
  Activated operator()(Lanes x) const { return {tanh_of(x), x}; }
};

struct Sigmoid {
  Activated operator()(Lanes x) const { return {sigmoid_of(x), x}; }
};

struct Silu {
  Activated operator()(Lanes x) const {
    const Lanes s = sigmoid_of(x), y = multiply(x, s);
    return {y, fused(y, subtract(all(1.0f), s), s)};
  }
};

struct Gelu {  // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  Activated operator()(Lanes x) const {
    const Lanes one = all(1.0f), half = all(0.5f), square = multiply(x, x), root = all(0.79788456080286536f);
    const Lanes t = tanh_of(multiply(root, multiply(x, fused(square, all(0.044715f), one))));
    const Lanes cdf = fused(half, t, half);
    const Lanes inner = multiply(root, fused(square, all(3 * 0.044715f), one));
    const Lanes outer = multiply(multiply(half, x), fused_minus(t, t, one));
    return {multiply(x, cdf), fused(outer, inner, cdf)};
  }
};

// Activations in place of h[unit][row], and their slopes where they are kept.
template <bool KEPT, class Function>
void activate(Function function, float* h, float* slopes, int units, int64_t block, int rows) {
  for (int64_t start = 0; start < units * block; start += block)
    for (int64_t i = start; i < start + rows; i += WIDTH) {
      const Activated a = function(load(h + i));
      store(h + i, a.value);
      if (KEPT) store(slopes + i, a.slope);
    }
}

}  // namespace

}  // namespace bnn_atlas
