// What the two builds of gradient.cpp, one for each instruction set, offer to the rest.
#pragma once
#include <cstdint>

namespace bnn_atlas {

enum Activation : int32_t { IDENTITY, RELU, TANH, SIGMOID, SILU, GELU };
enum Head : int32_t { KNOWN_NOISE, LEARNED_NOISE, EXP_NOISE, SOFTPLUS_NOISE, CATEGORICAL };
enum Function : int32_t { EXP, LOG, LOG1P, TANH_FUNCTION, SIGMOID_FUNCTION };

// A dense network and its likelihood. Parameters lie layer by layer, biases [out] before weights [out, in], and last
// the logarithm of a learned noise level.
struct Network {
  const int32_t* widths;  // inputs, hidden layers, outputs
  int32_t layers;         // weight matrices
  Activation activation;  // of all layers but the last
  bool bias;
  Head head;
  float log_sigma, precision_root;  // of known noise: log sigma and 1 / sigma
};

// `count` rows; row i is number i of the arrays, or number indices[i], which is kept inside [0, rows).
struct Rows {
  const float* x;  // [features][stride], or row by row [rows][features] where stride is 0
  int64_t stride;
  const void* y;           // float, or int32_t for classes
  const float* weights;    // or null
  const int32_t* indices;  // or null
  int64_t rows, count;
};

int64_t parameters(const Network& network);

// Log-likelihood of the rows, and its gradient where `slopes` is not null, with `workspace` floats of memory that are
// aligned to 64 bytes. The bits depend on the arguments alone.
#define BNN_ATLAS_KERNEL(isa)                                                                                    \
  namespace isa {                                                                                               \
  int64_t workspace(const Network&);                                                                            \
  void gradient(const Network&, const Rows&, const float* theta, float* workspace, float* value, float* slopes); \
  void function(Function, const float* x, float* y, int64_t count);                                             \
  }
BNN_ATLAS_KERNEL(avx512)
BNN_ATLAS_KERNEL(avx2)
#undef BNN_ATLAS_KERNEL

}  // namespace bnn_atlas
