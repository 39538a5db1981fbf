#include "dispatch.h"

#include <xmmintrin.h>

#include <cstdlib>
#include <memory>

namespace bnn_atlas {

namespace {

// Round to nearest, no traps, and numbers below 2^-126 are zero, until the end of the scope.
class Arithmetic {
 public:
  Arithmetic() : before_(_mm_getcsr()) { _mm_setcsr(0x1f80 | 0x8040); }
  ~Arithmetic() { _mm_setcsr(before_); }

 private:
  unsigned before_;
};

struct Free {
  void operator()(float* p) const { std::free(p); }
};

// Memory of this thread, which stays for its next call.
float* scratch(int64_t floats) {
  thread_local std::unique_ptr<float, Free> memory;
  thread_local int64_t size = 0;
  if (floats > size) {
    size = (floats + 15) / 16 * 16;
    memory.reset(static_cast<float*>(std::aligned_alloc(64, size * sizeof(float))));
    if (!memory) size = 0;
  }
  return memory.get();
}

}  // namespace

int64_t parameters(const Network& n) {
  int64_t count = n.head == LEARNED_NOISE;
  for (int l = 0; l < n.layers; l++) count += static_cast<int64_t>(n.widths[l + 1]) * (n.widths[l] + n.bias);
  return count;
}

InstructionSet best() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return NONE;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return wide ? AVX512 : AVX2;
}

bool gradient(InstructionSet set, const Network& network, const Rows& rows, const float* theta, float* value,
              float* slopes) {
  if (set == NONE || set > best()) return false;
  const Arithmetic arithmetic;
  if (set == AVX512) {
    float* memory = scratch(avx512::workspace(network));
    if (memory) avx512::gradient(network, rows, theta, memory, value, slopes);
    return memory;
  }
  float* memory = scratch(avx2::workspace(network));
  if (memory) avx2::gradient(network, rows, theta, memory, value, slopes);
  return memory;
}

bool function(InstructionSet set, Function which, const float* x, float* y, int64_t count) {
  if (set == NONE || set > best()) return false;
  const Arithmetic arithmetic;
  if (set == AVX512)
    avx512::function(which, x, y, count);
  else
    avx2::function(which, x, y, count);
  return true;
}

}  // namespace bnn_atlas
