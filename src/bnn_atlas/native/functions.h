// exp, log, log1p and tanh of lanes, within 2 units in the last place of the exact value (tests/native/ tries the whole
// range). NaN stays NaN. As everywhere in this folder and in XLA, numbers below 2^-126 count as zero.
#pragma once
#include "lanes.h"

namespace {

struct Reduced {
  Lanes power;      // n of x = n log 2 + r
  Lanes remainder;  // exp(r) - 1, |r| <= log(2) / 2
};

// The polynomial is that of Cephes's expf.
inline Reduced reduce(Lanes x) {
  const Lanes n = number(rounded(multiply(x, all(1.44269504f))));
  Lanes r = fused_minus(n, all(0.693359375f), x);
  r = fused(n, all(2.12194440e-4f), r);
  Lanes p = fused(all(1.9875691500e-4f), r, all(1.3981999507e-3f));
  p = fused(p, r, all(8.3334519073e-3f));
  p = fused(p, r, all(4.1665795894e-2f));
  p = fused(p, r, all(1.6666665459e-1f));
  p = fused(p, r, all(5.0000001201e-1f));
  return {n, fused(multiply(p, r), r, r)};
}

// 2^n for whole numbers n from -126 to 127.
inline Lanes power_of_two(Whole n) { return of_bits(left<23>(add(n, all(127)))); }

inline Lanes exp_of(Lanes x) {
  const Reduced e = reduce(smallest(all(89.0f), largest(all(-104.0f), x)));
  const Whole n = rounded(e.power), half = right<1>(n);  // 2^n itself may be out of range
  const Lanes scaled = multiply(add(e.remainder, all(1.0f)), power_of_two(half));
  return multiply(scaled, power_of_two(subtract(n, half)));
}

// log(2^k (1 + f) + error), the polynomial being that of FreeBSD's logf; `correction` is error / (2^k (1 + f)).
inline Lanes log_of_parts(Lanes k, Lanes f, Lanes correction) {
  const Lanes s = divide(f, add(f, all(2.0f))), z = multiply(s, s), w = multiply(z, z);
  const Lanes odd = multiply(w, fused(w, all(0.24279078841f), all(0.40000972152f)));
  const Lanes even = multiply(z, fused(w, all(0.28498786688f), all(0.66666662693f)));
  const Lanes square = multiply(multiply(all(0.5f), f), f);
  const Lanes small = fused(k, all(9.0580006145e-6f), correction);
  const Lanes tail = subtract(subtract(square, fused(s, add(square, add(odd, even)), small)), f);
  return fused(k, all(6.9313812256e-1f), subtract(zero(), tail));
}

struct Parts {
  Lanes k, f;
};

// x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), for positive finite x.
inline Parts parts_of(Lanes x) {
  const Whole origin = all(0x3f3504f3), above = subtract(bits(x), origin);
  const Lanes mantissa = of_bits(add(both(above, all(0x007fffff)), origin));
  return {number(right<23>(above)), subtract(mantissa, all(1.0f))};
}

// What a logarithm is at u = 0, at infinity, below zero, and at NaN.
inline Lanes log_at_ends(Lanes u, Lanes value) {
  const Lanes infinity = of_bits(all(0x7f800000));
  value = choose(equal(u, infinity), infinity, value);
  value = choose(equal(u, zero()), subtract(zero(), infinity), value);
  value = choose(less(u, zero()), of_bits(all(0x7fc00000)), value);
  return choose(equal(u, u), value, u);
}

inline Lanes log_of(Lanes x) {
  const Parts p = parts_of(x);
  return log_at_ends(x, log_of_parts(p.k, p.f, zero()));
}

inline Lanes log1p_of(Lanes x) {
  const Lanes one = all(1.0f), u = add(one, x);
  const Parts p = parts_of(u);
  // What rounding 1 + x lost, exactly; where k is 0, x itself is f.
  const Lanes lost = choose(less(size_of(x), one), subtract(x, subtract(u, one)), subtract(one, subtract(u, x)));
  const Mask near = equal(p.k, zero());
  const Lanes f = choose(near, x, p.f), correction = choose(near, zero(), divide(lost, u));
  return log_at_ends(u, log_of_parts(p.k, f, correction));
}

// tanh(c + d) = tanh(c) + d (p0 + d (p1 + ...)) on twelve intervals, two for each power of two from 1/4 to 8: a centre c,
// whose tanh is within 2^-35 of a single-precision number, that number, and p0 to p5, which are least-squares fits
// reweighted towards the smallest largest relative error. An interval's column is the last four bits of the exponent and
// the first bit of the mantissa taken together; all below 1/4 is in column 9.
alignas(64) const float TANH[8][16] = {
    {2.49902773f, 3.50058651f, 4.99977016f, 6.99900007f, 8.5635004f, 0, 0, 0, 0, 0, 0.311711401f, 0.437669098f,
     0.624411106f, 0.875141978f, 1.24971187f, 1.74919057f},
    {0.986588418f, 0.998180032f, 0.999909163f, 0.999998331f, 0.99999994f, 0, 0, 0, 0, 0, 0.301993221f, 0.411710501f,
     0.554191828f, 0.703977227f, 0.848202825f, 0.941283345f},
    {0.0266433861f, 0.00363669195f, 0.000181920521f, 3.33276421e-06f, 1.45646041e-07f, 0, 0, 0, 0, 1.0f, 0.908800066f,
     0.830494463f, 0.692871451f, 0.504416049f, 0.280551851f, 0.113985613f},
    {-0.0262857545f, -0.00363005302f, -0.00018184197f, -3.30180433e-06f, -8.93727872e-07f, 0, 0, 0, 0,
     -1.55693715e-06f, -0.274451464f, -0.341923296f, -0.383983701f, -0.355097443f, -0.237964988f, -0.107292742f},
    {0.017048981f, 0.00240895967f, 0.00011895335f, 2.20658717e-06f, 1.05266139e-07f, 0, 0, 0, 0, -0.333259553f,
     -0.220050901f, -0.13605836f, -0.0181627162f, 0.0818395242f, 0.108340576f, 0.0630043074f},
    {-0.00806577876f, -0.00119590235f, -5.95916754e-05f, -1.1677065e-06f, 6.23238157e-06f, 0, 0, 0, 0, -0.00128275214f,
     0.157941744f, 0.169991508f, 0.138062194f, 0.0607561469f, -0.0125573389f, -0.0235393438f},
    {0.00289090374f, 0.000489703787f, 2.84403304e-05f, 5.01841953e-07f, -1.51222537e-08f, 0, 0, 0, 0, 0.143485144f,
     0.0458533838f, -0.00602845289f, -0.0542558134f, -0.0585401431f, -0.0197164547f, 0.00347341457f},
    {-0.000696328643f, -0.000157674367f, -9.37967525e-06f, -1.30714213e-07f, -1.32173082e-05f, 0, 0, 0, 0,
     -0.0375650264f, -0.0731175542f, -0.0617311299f, -0.0243442096f, 0.012868803f, 0.0151027329f, 0.00210588588f},
};

inline Lanes tanh_of(Lanes x) {
  const Lanes size = smallest(all(9.125f), size_of(x));
  const Whole column = right<22>(bits(largest(all(0.2f), size)));
  const Lanes d = subtract(size, lookup(TANH[0], column));
  Lanes p = lookup(TANH[7], column);
  for (int k = 6; k > 1; k--) p = fused(p, d, lookup(TANH[k], column));
  return with_sign_of(fused(p, d, lookup(TANH[1], column)), x);
}

inline Lanes sigmoid_of(Lanes x) { return divide(all(1.0f), add(all(1.0f), exp_of(subtract(zero(), x)))); }

}  // namespace
