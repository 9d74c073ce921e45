// Layer and group normalisation of one unit after the other, on one thread: what the kernels of
// group_norm.cc and add_norm.cc share. A unit of work is one group of one sample, which lies in a
// cache while it is read twice (statistics, then the rest), so each direction is one pass over
// memory. The gradients of weight and bias are summed beside that of x: over some samples in the
// compute type, then in double over pieces that depend on the shape alone.
#pragma once

#include "lockstep/tensor/cpu/rows.h"
#include "lockstep/tensor/cpu/store.h"
#include "lockstep/tensor/ops/group_norm.h"

#include <algorithm>
#include <cmath>

namespace lockstep::cpu {

inline constexpr int64_t kMaxChunks = 64;
inline constexpr int64_t kRun = 64;  // values of a channel added up before the sum goes to double

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

/// The units [first, last), numbered as mean and rstd are; x and y may be one memory.
template <class T, class C = compute_t<T>>
void normalise_units(const GroupNormExtents& e, int64_t first, int64_t last, const T* x,
                     const C* weight, const C* bias, double eps, T* y, C* mean, C* rstd) {
  const int64_t width = e.channels / e.groups;
  for (int64_t u = first; u < last; ++u) {
    const int64_t group = u % e.groups;
    const Unit unit(e, u / e.groups, group);
    const double n = std::max(unit.count(), 1.0);
    // Relative to an element, so that a mean that is large beside the deviation is not rounded
    // away with the sum.
    const C near = unit.count() > 0 ? static_cast<C>(x[unit.begin]) : C(0);
    const double above =
        unit.sum<C>([=](int64_t i, int64_t) { return static_cast<C>(x[i]) - near; }) / n;
    const C m = static_cast<C>(static_cast<double>(near) + above);
    const double variance = unit.sum<C>([=](int64_t i, int64_t) {
      const C d = static_cast<C>(x[i]) - m;
      return d * d;
    }) / n;
    const C r = static_cast<C>(1 / std::sqrt(variance + eps));
    mean[u] = m;
    rstd[u] = r;
    const C* scale = weight + group * width;
    const C* shift = bias + group * width;
    for (int64_t p = 0; p < unit.positions; ++p) {
      const T* from = x + unit.begin + p * unit.pitch;
      T* to = y + unit.begin + p * unit.pitch;
#pragma omp simd
      for (int64_t c = 0; c < width; ++c)
        store(to[c], (static_cast<C>(from[c]) - m) * r * scale[c] + shift[c]);
    }
  }
}

/// Sums of the gradients of `vectors` vectors over chunks of samples: [chunks, vectors, channels].
struct Partials {
  int64_t chunks, samples, row;
  Tensor memory;
  double* values;

  Partials(const GroupNormExtents& e, int64_t vectors)
      : chunks(std::min(kMaxChunks, e.samples)),
        samples(e.samples),
        row(vectors * e.channels),
        memory(Tensor::zeros({chunks, row}, DType::kF64)),
        values(memory.mutable_data<double>()) {}
  int64_t first(int64_t chunk) const { return samples * chunk / chunks; }
  /// Of the first vector, the weight; the others follow it.
  double* of(int64_t chunk) const { return values + chunk * row; }

  template <class C>
  void add_up(C* sums) const {
    parallel_for(row, 1024, [=, this](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double total = 0;
        for (int64_t i = 0; i < chunks; ++i) total += values[i * row + c];
        sums[c] = static_cast<C>(total);
      }
    });
  }
};

template <class T>
struct GroupNormGradient {
  using C = compute_t<T>;
  GroupNormExtents e;
  const T* grad_y;
  const T* x;
  const C* weight;
  const C* mean;
  const C* rstd;

  /// One group of the samples [first, last); element i of the gradient goes to grad_x[i - origin].
  /// `run` is scratch for 2 * width values.
  template <bool kData, bool kSums, bool kAccumulate>
  void group(int64_t first, int64_t last, int64_t group, T* grad_x, int64_t origin, C* run,
             double* of_weight, double* of_bias) const {
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
        T* out = kData ? grad_x + (at - origin) : nullptr;
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
            if constexpr (kAccumulate) value += static_cast<C>(out[c]);
            store(out[c], value);
          }
        }
        if (kSums && ++in_run == kRun) flush();
      }
    }
    if constexpr (kSums) flush();
  }
};

}  // namespace lockstep::cpu
