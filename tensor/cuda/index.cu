// Reading and adding where a tensor of indexes says. What meets is added by one thread in the order
// of the index, so results do not depend on the schedule. An index that is out of range cannot be
// an exception here, because the host does not wait: what is read there is NaN, and what should be
// added there is left out.
#include "lockstep/tensor/ops/index.h"

#include "lockstep/tensor/cuda/embedding.h"
#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/tables.h"

#include <limits>

namespace lockstep::LOCKSTEP_GPU {
namespace {

/// The lines of an index tensor along one dimension, and where they lie in it and in the tensor of
/// `whole` that it points into.
struct Lines {
  int others = 0;
  int64_t extent[Shape::kMaxDims], in_index[Shape::kMaxDims], in_whole[Shape::kMaxDims];
  int64_t count = 1, length, whole_length, index_step, whole_step;

  Lines(const Shape& index, const Shape& whole, int dim)
      : length(index[dim]),
        whole_length(whole[dim]),
        index_step(index.numel(dim + 1, index.ndim())),
        whole_step(whole.numel(dim + 1, whole.ndim())) {
    for (int i = 0; i < index.ndim(); ++i) {
      if (i == dim) continue;
      extent[others] = index[i];
      in_index[others] = index.numel(i + 1, index.ndim());
      in_whole[others++] = whole.numel(i + 1, whole.ndim());
      count *= index[i];
    }
  }
  struct Start {
    int64_t in_index, in_whole;
  };
  __device__ Start start(int64_t line) const {
    Start at{0, 0};
    for (int d = others - 1; d >= 0; --d) {
      at.in_index += line % extent[d] * in_index[d];
      at.in_whole += line % extent[d] * in_whole[d];
      line /= extent[d];
    }
    return at;
  }
};

template <class T>
struct Gather {
  using C = compute_t<T>;
  Lines lines;
  const T* x;
  const int64_t* index;
  T* y;
  bool accumulate;
  /// Number `i` counts the lines fastest, so that neighbours lie beside each other.
  __device__ void operator()(int64_t i) const {
    const Lines::Start start = lines.start(i % lines.count);
    const int64_t k = start.in_index + i / lines.count * lines.index_step;
    const int64_t at = index[k];
    const C v = at >= 0 && at < lines.whole_length
                    ? static_cast<C>(x[start.in_whole + at * lines.whole_step])
                    : std::numeric_limits<C>::quiet_NaN();
    y[k] = T(accumulate ? static_cast<C>(y[k]) + v : v);
  }
};

template <class T>
__device__ void add_to(T& sum, T v) {
  sum = T(static_cast<compute_t<T>>(sum) + static_cast<compute_t<T>>(v));
}

/// A thread for each line: `length` steps, as many threads as lines.
template <class T>
struct ScatterLine {
  Lines lines;
  const T* x;
  const int64_t* index;
  T* y;
  __device__ void operator()(int64_t line) const {
    const Lines::Start start = lines.start(line);
    for (int64_t i = 0; i < lines.length; ++i) {
      const int64_t k = start.in_index + i * lines.index_step;
      if (index[k] >= 0 && index[k] < lines.whole_length)
        add_to(y[start.in_whole + index[k] * lines.whole_step], x[k]);
    }
  }
};

/// A thread for each place of each line, which looks for it in the line's indexes: as many steps,
/// but reads of the indexes alone, which neighbours share.
template <class T>
struct ScatterPlace {
  Lines lines;
  const T* x;
  const int64_t* index;
  T* y;
  __device__ void operator()(int64_t i) const {
    const Lines::Start start = lines.start(i / lines.whole_length);
    const int64_t place = i % lines.whole_length;
    T& to = y[start.in_whole + place * lines.whole_step];
    for (int64_t j = 0; j < lines.length; ++j) {
      const int64_t k = start.in_index + j * lines.index_step;
      if (index[k] == place) add_to(to, x[k]);
    }
  }
};

void gather(const Tensor& x, int dim, const Tensor& index, const Dest& y) {
  dispatch_floating(x.dtype(), "gather", [&](auto zero) {
    using T = decltype(zero);
    Tensor target = y.out;
    for_each(index.numel(),
             Gather<T>{Lines(index.shape(), x.shape(), dim), x.data<T>(), index.data<int64_t>(),
                       target.mutable_data<T>(), y.accumulate});
  });
}

void scatter_add(const Tensor& x, int dim, const Tensor& index, Tensor& y) {
  // Up to here a thread for each place is the faster way: a GPU looks at 10^12 indexes a second,
  // and a thread alone adds to memory in half a microsecond.
  constexpr int64_t kMostPlaces = int64_t{1} << 18;
  dispatch_floating(x.dtype(), "scatter_add", [&](auto zero) {
    using T = decltype(zero);
    const Lines lines(index.shape(), y.shape(), dim);
    const int64_t places = lines.count * lines.whole_length;
    const T* from = x.data<T>();
    const int64_t* at = index.data<int64_t>();
    T* to = y.mutable_data<T>();
    if (index.numel() == 0) return;
    if (places <= kMostPlaces) {
      for_each(places, ScatterPlace<T>{lines, from, at, to});
    } else {
      for_each(lines.count, ScatterLine<T>{lines, from, at, to});
    }
  });
}

}  // namespace

const IndexKernels kIndex{.gather = gather,
                          .scatter_add = scatter_add,
                          .embedding = embedding,
                          .embedding_backward = embedding_backward};

}  // namespace lockstep::LOCKSTEP_GPU
