// What Python loads: the call that XLA makes, and plain functions for tests.
#include "dispatch.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

bnn_atlas::InstructionSet processor() {
  static const bnn_atlas::InstructionSet found = bnn_atlas::best();
  return found;
}

// x is [features, stride] where `by_feature`, or else [rows, features]; `weights` and `indices` may have no elements, and
// so may `slopes`, where only the value is asked for.
ffi::Error call(ffi::Buffer<ffi::F32> theta, ffi::Buffer<ffi::F32> x, ffi::AnyBuffer y, ffi::Buffer<ffi::F32> weights,
                ffi::Buffer<ffi::S32> indices, ffi::ResultBuffer<ffi::F32> value, ffi::ResultBuffer<ffi::F32> slopes,
                ffi::Span<const int32_t> widths, int32_t activation, bool bias, int32_t head, float log_sigma,
                float precision_root, bool by_feature) {
  using namespace bnn_atlas;
  const Network network{widths.begin(), static_cast<int32_t>(widths.size()) - 1, static_cast<Activation>(activation),
                        bias, static_cast<Head>(head), log_sigma, precision_root};
  const int64_t size = parameters(network), rows = y.element_count();
  const int64_t given = indices.element_count();
  const auto shape = x.dimensions();
  const bool fits = shape.size() == 2 && shape[by_feature ? 0 : 1] == widths[0] && shape[by_feature ? 1 : 0] >= rows;
  const bool typed = y.element_type() == (network.head == CATEGORICAL ? ffi::S32 : ffi::F32);
  if (!fits || !typed || rows < 1 || static_cast<int64_t>(theta.element_count()) != size ||
      (slopes->element_count() && static_cast<int64_t>(slopes->element_count()) != size) ||
      (weights.element_count() && static_cast<int64_t>(weights.element_count()) != rows))
    return ffi::Error::InvalidArgument("bnn_atlas: arrays of the compiled gradient do not belong together");
  const Rows all{x.typed_data(),
                 by_feature ? shape[1] : 0,
                 y.untyped_data(),
                 weights.element_count() ? weights.typed_data() : nullptr,
                 given ? indices.typed_data() : nullptr,
                 rows,
                 given ? given : rows};
  float* out = slopes->element_count() ? slopes->typed_data() : nullptr;
  if (!gradient(processor(), network, all, theta.typed_data(), value->typed_data(), out))
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "bnn_atlas: no memory for the compiled gradient");
  return ffi::Error::Success();
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* bnn_atlas_call(XLA_FFI_CallFrame* frame);
XLA_FFI_DEFINE_HANDLER_SYMBOL(bnn_atlas_call, call,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<ffi::Span<const int32_t>>("widths")
                                  .Attr<int32_t>("activation")
                                  .Attr<bool>("bias")
                                  .Attr<int32_t>("head")
                                  .Attr<float>("log_sigma")
                                  .Attr<float>("precision_root")
                                  .Attr<bool>("by_feature"));

EXPORTED int32_t bnn_atlas_best() { return processor(); }

EXPORTED int32_t bnn_atlas_function(int32_t set, int32_t which, const float* x, float* y, int64_t count) {
  return bnn_atlas::function(static_cast<bnn_atlas::InstructionSet>(set), static_cast<bnn_atlas::Function>(which), x, y,
                             count);
}

EXPORTED int32_t bnn_atlas_gradient(int32_t set, const int32_t* widths, int32_t layers, int32_t activation, int32_t bias,
                                    int32_t head, float log_sigma, float precision_root, const float* x, int64_t stride,
                                    const void* y, const float* weights, const int32_t* indices, int64_t rows,
                                    int64_t count, const float* theta, float* value, float* slopes) {
  using namespace bnn_atlas;
  const Network network{widths,    layers,        static_cast<Activation>(activation), bias != 0, static_cast<Head>(head),
                        log_sigma, precision_root};
  const Rows all{x, stride, y, weights, indices, rows, count};
  return gradient(static_cast<InstructionSet>(set), network, all, theta, value, slopes);
}
