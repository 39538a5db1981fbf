// The kernel on the best instruction set that the processor has, or on a given one, with scratch memory of its own.
#pragma once
#include "gradient.h"

namespace bnn_atlas {

enum InstructionSet : int32_t { NONE, AVX2, AVX512 };

InstructionSet best();

// False where the processor does not have the instruction set. Both set rounding and flushing as XLA does.
bool gradient(InstructionSet, const Network&, const Rows&, const float* theta, float* value, float* slopes);
bool function(InstructionSet, Function, const float* x, float* y, int64_t count);

}  // namespace bnn_atlas
