// Layer and group normalisation. A unit of work is one group of one sample, which lies in a cache
// while it is read twice (statistics, then the rest), so each direction is one pass over memory.
// The gradients of weight and bias are summed beside that of x: over some samples in the compute
// type, then in double over pieces that depend on the shape alone.
#include "lockstep/tensor/ops/group_norm.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/rows.h"
#include "lockstep/tensor/cpu/store.h"

namespace lockstep {
namespace {

using cpu::row_sum;

constexpr int64_t kMaxChunks = 64;
constexpr int64_t kRun = 64;  // values of a channel added up before the sum goes to double

/// The elements of a unit: `positions` runs of `width` neighbours.
struct Unit {
  int64_t begin, positions, width, pitch;

  Unit(const GroupNormExtents& e, int64_t sample, int64_t group)
      : begin(sample * e.positions * e.channels + group * (e.channels / e.groups)),
        positions(e.positions),
        width(e.channels / e.groups),
        pitch(e.channels) {}

  /// The sum of term(offset of the element, number of its channel in the group).
  template <class C, class Term>
  double sum(Term&& term) const {
    double total = 0;
    for (int64_t p = 0; p < positions; ++p) {
      const int64_t at = begin + p * pitch;
      total += static_cast<double>(row_sum<C>(width, [&](int64_t c) { return term(at + c, c); }));
    }
    return total;
  }
  double count() const { return static_cast<double>(positions * width); }
};

void forward(const Tensor& x, GroupNormExtents e, const Tensor& weight, const Tensor& bias,
             double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  dispatch_floating(x.dtype(), "group_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* in = x.data<T>();
    const C* w = weight.data<C>();
    const C* b = bias.data<C>();
    T* out = y.mutable_data<T>();
    C* means = mean.mutable_data<C>();
    C* deviations = rstd.mutable_data<C>();
    const int64_t width = e.channels / e.groups;
    cpu::parallel_for(
        e.samples * e.groups, cpu::row_grain(e.positions * width), [=](int64_t begin, int64_t end) {
          for (int64_t u = begin; u < end; ++u) {
            const int64_t group = u % e.groups;
            const Unit unit(e, u / e.groups, group);
            const double n = std::max(unit.count(), 1.0);
            // Relative to an element, so that a mean that is large beside the deviation is not
            // rounded
            // away with the sum.
            const C near = unit.count() > 0 ? static_cast<C>(in[unit.begin]) : C(0);
            const double above =
                unit.sum<C>([=](int64_t i, int64_t) { return static_cast<C>(in[i]) - near; }) / n;
            const C m = static_cast<C>(static_cast<double>(near) + above);
            const double variance = unit.sum<C>([=](int64_t i, int64_t) {
              const C d = static_cast<C>(in[i]) - m;
              return d * d;
            }) / n;
            const C r = static_cast<C>(1 / std::sqrt(variance + eps));
            means[u] = m;
            deviations[u] = r;
            const C* scale = w + group * width;
            const C* shift = b + group * width;
            for (int64_t p = 0; p < unit.positions; ++p) {
              const T* from = in + unit.begin + p * unit.pitch;
              T* to = out + unit.begin + p * unit.pitch;
#pragma omp simd
              for (int64_t c = 0; c < width; ++c)
                cpu::store(to[c], (static_cast<C>(from[c]) - m) * r * scale[c] + shift[c]);
            }
          }
        });
  });
}

/// Sums of the gradients of weight and bias over chunks of samples: [chunks, 2, channels].
struct Partials {
  int64_t chunks, samples, channels;
  Tensor memory;
  double* values;

  explicit Partials(const GroupNormExtents& e)
      : chunks(std::min(kMaxChunks, e.samples)),
        samples(e.samples),
        channels(e.channels),
        memory(Tensor::zeros({chunks, 2, e.channels}, DType::kF64)),
        values(memory.mutable_data<double>()) {}
  int64_t first(int64_t chunk) const { return samples * chunk / chunks; }
  double* of_weight(int64_t chunk) const { return values + 2 * chunk * channels; }

  template <class C>
  void add_up(C* sums) const {
    cpu::parallel_for(2 * channels, 1024, [=, this](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double total = 0;
        for (int64_t i = 0; i < chunks; ++i) total += values[2 * i * channels + c];
        sums[c] = static_cast<C>(total);
      }
    });
  }
};

template <class T>
struct Backward {
  using C = compute_t<T>;
  GroupNormExtents e;
  const T* grad_y;
  const T* x;
  const C* weight;
  const C* mean;
  const C* rstd;
  T* grad_x;

  /// One group of the samples [first, last). `run` is scratch for 2 * width values.
  template <bool kData, bool kSums, bool kAccumulate>
  void group(int64_t first, int64_t last, int64_t group, C* run, double* of_weight,
             double* of_bias) const {
    const int64_t width = e.channels / e.groups;
    const C* w = weight + group * width;
    C* run_weight = run;
    C* run_bias = run + width;
    int64_t in_run = 0;
    const auto flush = [&] {
      for (int64_t c = 0; c < width; ++c) {
        of_weight[c] += static_cast<double>(run_weight[c]);
        of_bias[c] += static_cast<double>(run_bias[c]);
      }
      std::fill_n(run, 2 * width, C(0));
      in_run = 0;
    };
    if constexpr (kSums) std::fill_n(run, 2 * width, C(0));
    for (int64_t sample = first; sample < last; ++sample) {
      const Unit unit(e, sample, group);
      const C m = mean[sample * e.groups + group];
      const C r = rstd[sample * e.groups + group];
      C offset = 0, slope = 0;
      if constexpr (kData) {
        double sum = 0, product = 0;
        for (int64_t p = 0; p < unit.positions; ++p) {
          const T* g = grad_y + unit.begin + p * unit.pitch;
          const T* in = x + unit.begin + p * unit.pitch;
          C s = 0, q = 0;
#pragma omp simd reduction(+ : s, q)
          for (int64_t c = 0; c < width; ++c) {
            const C weighted = static_cast<C>(g[c]) * w[c];
            s += weighted;
            q += weighted * (static_cast<C>(in[c]) - m);
          }
          sum += static_cast<double>(s);
          product += static_cast<double>(q);
        }
        const double n = std::max(unit.count(), 1.0);
        offset = static_cast<C>(sum / n);
        slope = static_cast<C>(product * static_cast<double>(r) / n);
      }
      for (int64_t p = 0; p < unit.positions; ++p) {
        const int64_t at = unit.begin + p * unit.pitch;
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) {
          const C g = static_cast<C>(grad_y[at + c]);
          const C normal = (static_cast<C>(x[at + c]) - m) * r;
          if constexpr (kSums) {
            run_weight[c] += g * normal;
            run_bias[c] += g;
          }
          if constexpr (kData) {
            C value = r * (g * w[c] - offset - normal * slope);
            if constexpr (kAccumulate) value += static_cast<C>(grad_x[at + c]);
            cpu::store(grad_x[at + c], value);
          }
        }
        if (kSums && ++in_run == kRun) flush();
      }
    }
    if constexpr (kSums) flush();
  }
};

void backward(const Tensor& grad_y, const Tensor& x, GroupNormExtents e, const Tensor& weight,
              const Tensor& mean, const Tensor& rstd, const Dest& grad_x, Tensor& sums) {
  dispatch_floating(x.dtype(), "group_norm_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Tensor target = grad_x.out;
    const Backward<T> job{e,
                          grad_y.data<T>(),
                          x.data<T>(),
                          weight.data<C>(),
                          mean.data<C>(),
                          rstd.data<C>(),
                          target.defined() ? target.mutable_data<T>() : nullptr};
    const Partials partials(e);
    const int64_t width = e.channels / e.groups;
    const int64_t work = e.positions * width * (e.samples / std::max<int64_t>(partials.chunks, 1));
    const auto kernel = [&]<bool kData, bool kSums>() {
      return grad_x.accumulate ? &Backward<T>::template group<kData, kSums, true>
                               : &Backward<T>::template group<kData, kSums, false>;
    };
    const auto run = !target.defined() ? kernel.template operator()<false, true>()
                     : sums.defined()  ? kernel.template operator()<true, true>()
                                       : kernel.template operator()<true, false>();
    if (!target.defined() && !sums.defined()) return;
    cpu::parallel_for(partials.chunks * e.groups, cpu::row_grain(work),
                      [&](int64_t begin, int64_t end) {
                        Tensor memory = Tensor::empty({2 * width}, dtype_of<C>);
                        for (int64_t u = begin; u < end; ++u) {
                          const int64_t chunk = u / e.groups, group = u % e.groups;
                          double* of_weight = partials.of_weight(chunk) + group * width;
                          (job.*run)(partials.first(chunk), partials.first(chunk + 1), group,
                                     memory.mutable_data<C>(), of_weight, of_weight + e.channels);
                        }
                      });
    if (sums.defined()) partials.add_up(sums.mutable_data<C>());
  });
}

}  // namespace

const GroupNormKernels kCpuGroupNorm{.forward = forward, .backward = backward};

}  // namespace lockstep
