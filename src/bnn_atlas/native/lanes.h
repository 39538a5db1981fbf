// A register of single-precision lanes, 16 with AVX-512 and 8 with AVX2. Every operation rounds each lane once, so that
// both give the same bits.
#pragma once
#include <immintrin.h>

namespace {

#if defined(__AVX512F__)
constexpr int WIDTH = 16;
using Lanes = __m512;
using Whole = __m512i;
using Mask = __mmask16;

inline Lanes load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Lanes a) { _mm512_storeu_ps(p, a); }
inline Whole load(const int* p) { return _mm512_loadu_si512(p); }
inline Lanes all(float a) { return _mm512_set1_ps(a); }
inline Whole all(int a) { return _mm512_set1_epi32(a); }
inline Lanes add(Lanes a, Lanes b) { return _mm512_add_ps(a, b); }
inline Lanes subtract(Lanes a, Lanes b) { return _mm512_sub_ps(a, b); }
inline Lanes multiply(Lanes a, Lanes b) { return _mm512_mul_ps(a, b); }
inline Lanes divide(Lanes a, Lanes b) { return _mm512_div_ps(a, b); }
inline Lanes fused(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
inline Lanes fused_minus(Lanes a, Lanes b, Lanes c) { return _mm512_fnmadd_ps(a, b, c); }
inline Lanes largest(Lanes a, Lanes b) { return _mm512_max_ps(a, b); }
inline Lanes smallest(Lanes a, Lanes b) { return _mm512_min_ps(a, b); }
inline Mask less(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline Mask equal(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
inline Mask equal(Whole a, Whole b) { return _mm512_cmpeq_epi32_mask(a, b); }
inline Lanes choose(Mask m, Lanes a, Lanes b) { return _mm512_mask_blend_ps(m, b, a); }
inline Lanes if_set(Mask m, Lanes a) { return _mm512_maskz_mov_ps(m, a); }
inline Whole rounded(Lanes a) { return _mm512_cvtps_epi32(a); }
inline Lanes number(Whole a) { return _mm512_cvtepi32_ps(a); }
inline Whole bits(Lanes a) { return _mm512_castps_si512(a); }
inline Lanes of_bits(Whole a) { return _mm512_castsi512_ps(a); }
inline Whole add(Whole a, Whole b) { return _mm512_add_epi32(a, b); }
inline Whole subtract(Whole a, Whole b) { return _mm512_sub_epi32(a, b); }
inline Whole both(Whole a, Whole b) { return _mm512_and_si512(a, b); }
inline Whole either(Whole a, Whole b) { return _mm512_or_si512(a, b); }
template <int N>
inline Whole left(Whole a) { return _mm512_slli_epi32(a, N); }
template <int N>
inline Whole right(Whole a) { return _mm512_srai_epi32(a, N); }
inline Lanes lookup(const float* table, Whole i) { return _mm512_permutexvar_ps(i, _mm512_load_ps(table)); }
#else
constexpr int WIDTH = 8;
using Lanes = __m256;
using Whole = __m256i;
using Mask = __m256;

inline Lanes load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Lanes a) { _mm256_storeu_ps(p, a); }
inline Whole load(const int* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline Lanes all(float a) { return _mm256_set1_ps(a); }
inline Whole all(int a) { return _mm256_set1_epi32(a); }
inline Lanes add(Lanes a, Lanes b) { return _mm256_add_ps(a, b); }
inline Lanes subtract(Lanes a, Lanes b) { return _mm256_sub_ps(a, b); }
inline Lanes multiply(Lanes a, Lanes b) { return _mm256_mul_ps(a, b); }
inline Lanes divide(Lanes a, Lanes b) { return _mm256_div_ps(a, b); }
inline Lanes fused(Lanes a, Lanes b, Lanes c) { return _mm256_fmadd_ps(a, b, c); }
inline Lanes fused_minus(Lanes a, Lanes b, Lanes c) { return _mm256_fnmadd_ps(a, b, c); }
inline Lanes largest(Lanes a, Lanes b) { return _mm256_max_ps(a, b); }
inline Lanes smallest(Lanes a, Lanes b) { return _mm256_min_ps(a, b); }
inline Mask less(Lanes a, Lanes b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
inline Mask equal(Lanes a, Lanes b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
inline Mask equal(Whole a, Whole b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
inline Lanes choose(Mask m, Lanes a, Lanes b) { return _mm256_blendv_ps(b, a, m); }
inline Lanes if_set(Mask m, Lanes a) { return _mm256_and_ps(m, a); }
inline Whole rounded(Lanes a) { return _mm256_cvtps_epi32(a); }
inline Lanes number(Whole a) { return _mm256_cvtepi32_ps(a); }
inline Whole bits(Lanes a) { return _mm256_castps_si256(a); }
inline Lanes of_bits(Whole a) { return _mm256_castsi256_ps(a); }
inline Whole add(Whole a, Whole b) { return _mm256_add_epi32(a, b); }
inline Whole subtract(Whole a, Whole b) { return _mm256_sub_epi32(a, b); }
inline Whole both(Whole a, Whole b) { return _mm256_and_si256(a, b); }
inline Whole either(Whole a, Whole b) { return _mm256_or_si256(a, b); }
template <int N>
inline Whole left(Whole a) { return _mm256_slli_epi32(a, N); }
template <int N>
inline Whole right(Whole a) { return _mm256_srai_epi32(a, N); }
inline Lanes lookup(const float* table, Whole i) {
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_load_ps(table), i);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), i);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}
#endif

// `lookup` takes the entry of a table of 16 whose number is in the last four bits.
// `largest(a, b)` and `smallest(a, b)` are b where either is NaN: what may be NaN goes second.

constexpr int LOGICAL = 16;               // lanes of a sum, whatever the register
constexpr int PARTS = LOGICAL / WIDTH;    // registers that these lanes take

inline Lanes zero() { return all(0.0f); }
inline Lanes size_of(Lanes a) { return of_bits(both(bits(a), all(0x7fffffff))); }
inline Lanes with_sign_of(Lanes a, Lanes sign) {
  return of_bits(either(bits(a), both(bits(sign), all(static_cast<int>(0x80000000)))));
}

// The 16 lanes of four sums that lie one after another, each added up as a tree: (i, i + 8), (i, i + 4), (i, i + 2), ...
inline __m128 four_sums(const float* sums) {
  __m128 half[4];
  for (int k = 0; k < 4; k++) {
    const float* p = sums + k * LOGICAL;
    __m256 eight = _mm256_add_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
    half[k] = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  }
  _MM_TRANSPOSE4_PS(half[0], half[1], half[2], half[3]);
  return _mm_add_ps(_mm_add_ps(half[0], half[2]), _mm_add_ps(half[1], half[3]));
}

}  // namespace
