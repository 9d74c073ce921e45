#include "lockstep/tensor/cpu/onednn/onednn.h"

#include "lockstep/tensor/tensor.h"

#include <omp.h>

namespace lockstep::cpu::onednn {
namespace {

const dnnl::stream& stream() {
  thread_local const dnnl::stream stream(engine());
  return stream;
}

}  // namespace

const dnnl::engine& engine() {
  // Never destroyed: the caches of threads that end late refer to it.
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::memory::data_type data_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return dnnl::memory::data_type::f32;
    case DType::kBF16:
      return dnnl::memory::data_type::bf16;
    case DType::kI32:
      return dnnl::memory::data_type::s32;
    case DType::kU8:
      return dnnl::memory::data_type::u8;
    default:
      throw ArgumentError(str("onednn: wanted f32, bf16, i32 or u8, got ", name_of(dtype)));
  }
}

dnnl::primitive_attr attributes(bool accumulate) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attr.set_post_ops(post);
  }
  return attr;
}

int threads() { return omp_get_max_threads(); }

Call::Call(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
           const std::vector<Arg>& args)
    : primitive_(std::move(primitive)), scratchpad_bytes_(scratchpad.get_size()) {
  const auto add = [&](int index, const dnnl::memory::desc& desc) {
    memories_.emplace_back(desc, engine(), nullptr);
    args_.push_back({index, memories_.back().get()});
  };
  for (const Arg& arg : args) add(arg.index, arg.desc);
  if (scratchpad_bytes_ > 0) add(DNNL_ARG_SCRATCHPAD, scratchpad);
}

void Call::run(std::initializer_list<const void*> data) {
  const size_t extra = scratchpad_bytes_ > 0 ? 1 : 0;
  check(data.size() + extra == memories_.size(), "onednn: wanted ", memories_.size() - extra,
        " pointers, got ", data.size());
  size_t i = 0;
  for (const void* pointer : data) memories_[i++].set_data_handle(const_cast<void*>(pointer));
  Tensor scratchpad;
  if (extra > 0) {
    scratchpad = Tensor::empty({static_cast<int64_t>(scratchpad_bytes_)}, DType::kU8);
    memories_[i].set_data_handle(scratchpad.mutable_raw());
  }
  // The C call: the C++ one wants its arguments in a map, which would be an allocation a call.
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream().get(),
                                                      static_cast<int>(args_.size()), args_.data());
  if (status != dnnl_success) throw Error(str("onednn: a primitive failed with status ", status));
  dnnl::stream(stream()).wait();
}

}  // namespace lockstep::cpu::onednn
