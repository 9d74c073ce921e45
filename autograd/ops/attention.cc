#include "lockstep/autograd/ops/attention.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"

namespace lockstep {
namespace {

/// The mask may be the caller's to reuse, so a change of it must show.
Saved saved_mask(const AttentionOptions& options) {
  return options.key_padding_mask.defined() ? Saved(options.key_padding_mask) : Saved();
}

}  // namespace

Variable scaled_dot_product_attention(const Variable& any_q, const Variable& any_k,
                                      const Variable& any_v, int64_t heads,
                                      const AttentionOptions& options, Generator* rng) {
  const Variable q = policy::narrow(any_q);
  const Variable k = any_k.is(any_q) ? q : policy::narrow(any_k);
  const Variable v = any_v.is(any_q) ? q : any_v.is(any_k) ? k : policy::narrow(any_v);
  const AttentionLayout layout = ops::attention_layout(q.data(), k.data(), v.data(), heads);
  const AttentionParams params = ops::attention_params(layout, options, rng);
  const ops::AttentionResult result = ops::attention(
      q.data(), k.data(), v.data(), options.key_padding_mask, layout, params, q.shape());
  // The kernel writes all three gradients at once: into memory of one variable that is two of them
  // it may not.
  const bool distinct = !q.is(k) && !q.is(v) && !k.is(v);
  return record("scaled_dot_product_attention", result.out, {q, k, v},
                [q = Saved(q.data()), k = Saved(k.data()), v = Saved(v.data()),
                 mask = saved_mask(options), out = Saved(result.out), lse = result.lse, layout,
                 params, distinct](const Tensor& grad_out, GradSink& sink) {
                  const Tensor* inputs[] = {&q.get(), &k.get(), &v.get()};
                  Dest grads[3];
                  for (int i = 0; i < 3; ++i) {
                    if (!sink.wants(i)) continue;
                    const Tensor& x = *inputs[i];
                    grads[i] = distinct ? sink.dest(i)
                                        : Dest{Tensor::empty(x.shape(), x.dtype(), x.device())};
                  }
                  ops::attention_backward(grad_out, q.get(), k.get(), v.get(), mask.get(),
                                          {out.get(), lse}, layout, params, grads[0], grads[1],
                                          grads[2]);
                  for (int i = 0; !distinct && i < 3; ++i) {
                    if (sink.wants(i)) sink.give(i, std::move(grads[i].out));
                  }
                });
}

Variable packed_self_attention(const Variable& any_qkv, int64_t heads,
                               const AttentionOptions& options, Generator* rng) {
  const Variable qkv = policy::narrow(any_qkv);
  const Tensor& x = qkv.data();
  const AttentionLayout layout = ops::packed_attention_layout(x, heads);
  const AttentionParams params = ops::attention_params(layout, options, rng);
  const ops::AttentionResult result =
      ops::attention(x, x, x, options.key_padding_mask, layout, params,
                     {layout.batch, layout.queries, heads * layout.head_dim});
  return record("packed_self_attention", result.out, {qkv},
                [x = Saved(x), mask = saved_mask(options), out = Saved(result.out),
                 lse = result.lse, layout, params](const Tensor& grad_out, GradSink& sink) {
                  const Dest grad = sink.dest(0);
                  ops::attention_backward(grad_out, x.get(), x.get(), x.get(), mask.get(),
                                          {out.get(), lse}, layout, params, grad, grad, grad);
                });
}

}  // namespace lockstep
