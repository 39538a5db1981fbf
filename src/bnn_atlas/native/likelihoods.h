// Log-likelihoods of rows and their slopes by the network's outputs.
#pragma once
#include "functions.h"
#include "places.h"

namespace bnn_atlas {

namespace {

constexpr float HALF_LOG_2PI = 0.91893853320467274f;

// Adds the rows' log-likelihood to its lanes and writes its slopes by the outputs (and sums that by learned noise). As in
// XLA's way, an output that is NaN passes no slope on.
inline void head(const Network& n, const Block& b, const float* theta, const Places& p, float* space, bool first) {
  const int block = p.stride, outputs = n.widths[n.layers];
  const float* out = space + p.units[n.layers];
  float *by = space + p.by[n.layers], *value = space + p.log_likelihood, *by_noise = space + p.by_noise;
  alignas(64) static const float order[LOGICAL] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const Lanes one = all(1.0f);
  Lanes log_sigma = all(n.log_sigma), root = all(n.precision_root), slope = one;
  if (n.head == LEARNED_NOISE) {
    log_sigma = all(theta[p.parameters[n.layers]]);
    root = exp_of(subtract(zero(), log_sigma));
  }
  for (int row = 0; row < b.padded; row += WIDTH) {
    const int lane = row % LOGICAL;
    const Mask given = less(add(load(order + lane), all(static_cast<float>(row - lane))), all(static_cast<float>(b.count)));
    Lanes density, noise = zero();
    if (n.head == CATEGORICAL) {
      const Whole label = load(b.labels + row);
      Lanes most = load(out + row), sum = zero(), chosen = zero();
      for (int k = 1; k < outputs; k++) most = largest(most, load(out + k * block + row));
      for (int k = 0; k < outputs; k++) {
        const Lanes shifted = subtract(load(out + k * block + row), most), power = exp_of(shifted);
        sum = add(sum, power);
        store(by + k * block + row, power);
        chosen = choose(equal(label, all(k)), shifted, chosen);
      }
      density = subtract(chosen, log_of(sum));
      for (int k = 0; k < outputs; k++) {
        const Lanes probability = divide(load(by + k * block + row), sum);
        store(by + k * block + row, subtract(if_set(equal(label, all(k)), one), probability));
      }
    } else {
      if (n.head == EXP_NOISE) {
        const Lanes given_by = load(out + block + row);
        log_sigma = smallest(all(13.815511f), largest(all(-13.815511f), given_by));
        root = exp_of(subtract(zero(), log_sigma));
        slope = if_set(equal(log_sigma, given_by), one);
      } else if (n.head == SOFTPLUS_NOISE) {
        const Lanes t = load(out + block + row), decay = exp_of(subtract(zero(), size_of(t)));
        const Lanes softplus = add(largest(zero(), t), log1p_of(decay));
        const Lanes sigma = add(softplus, all(1e-6f));
        root = divide(one, sigma);
        log_sigma = log_of(sigma);
        slope = multiply(divide(choose(less(zero(), t), one, decay), add(one, decay)), root);
      }
      const Lanes z = multiply(subtract(load(b.y + row), load(out + row)), root);
      density = subtract(subtract(multiply(multiply(all(-0.5f), z), z), log_sigma), all(HALF_LOG_2PI));
      noise = multiply(subtract(multiply(z, z), one), slope);
      store(by + row, multiply(z, root));
      if (outputs == 2) store(by + block + row, noise);
    }
    const Lanes weight = if_set(given, b.weights ? load(b.weights + row) : one);
    for (int k = 0; k < outputs; k++) {
      const Lanes output = load(out + k * block + row), slopes = load(by + k * block + row);
      const Lanes weighted = b.weights ? multiply(slopes, weight) : slopes;
      store(by + k * block + row, if_set(given, choose(equal(output, output), weighted, zero())));
    }
    if (b.weights) {
      density = multiply(density, weight);
      noise = multiply(noise, weight);
    }
    const bool begins = first && row < LOGICAL;
    store(value + lane, add(begins ? zero() : load(value + lane), if_set(given, density)));
    if (n.head == LEARNED_NOISE)
      store(by_noise + lane, add(begins ? zero() : load(by_noise + lane), if_set(given, noise)));
  }
}

}  // namespace

}  // namespace bnn_atlas
