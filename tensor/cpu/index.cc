#include "lockstep/tensor/ops/index.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/rows.h"
#include "lockstep/tensor/cpu/strided.h"

namespace lockstep {
namespace {

using cpu::kGrain;
using cpu::parallel_for;

/// `name` is what an entry is called in the message.
void check_range(const char* op, const char* name, const Tensor& index, int64_t extent) {
  const int64_t* at = index.data<int64_t>();
  for (int64_t i = 0; i < index.numel(); ++i) {
    check(at[i] >= 0 && at[i] < extent, op, ": ", name, " number ", i, " is ", at[i],
          ", wanted one in [0, ", extent, ")");
  }
}

/// The lines of an index tensor along its dimension `dim`, and where each begins in the tensor of
/// `whole` that it points into.
struct Lines {
  cpu::StridedLoop<2> loop;  // over the other dimensions: offsets in the index, in the whole
  int64_t count, length, index_step, whole_step;

  Lines(const Shape& index, const Shape& whole, int dim)
      : length(index[dim]),
        index_step(index.numel(dim + 1, index.ndim())),
        whole_step(whole.numel(dim + 1, whole.ndim())) {
    for (int i = 0; i < index.ndim(); ++i) {
      if (i == dim) continue;
      loop.push(index[i], {index.numel(i + 1, index.ndim()), whole.numel(i + 1, whole.ndim())});
    }
    if (loop.ndim == 0) loop.push(1, {0, 0});
    count = loop.numel();
  }

  /// Calls fn(offset in the index, offset in the whole) for each line.
  template <class Fn>
  void each(Fn&& fn) const {
    parallel_for(count, std::max<int64_t>(kGrain / 4 / std::max<int64_t>(length, 1), 1),
                 [&](int64_t begin, int64_t end) {
                   cpu::walk_rows(
                       loop, begin, end, [&](const std::array<int64_t, 2>& at, int64_t lines) {
                         for (int64_t i = 0; i < lines; ++i) {
                           fn(at[0] + i * loop.inner_stride(0), at[1] + i * loop.inner_stride(1));
                         }
                       });
                 });
  }
};

void gather(const Tensor& x, int dim, const Tensor& index, const Dest& y) {
  check_range("gather", "index", index, x.dim(dim));
  dispatch_floating(x.dtype(), "gather", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* from = x.data<T>();
    const int64_t* at = index.data<int64_t>();
    Tensor target = y.out;
    T* to = target.mutable_data<T>();
    const Lines lines(index.shape(), x.shape(), dim);
    lines.each([&, accumulate = y.accumulate](int64_t in_index, int64_t in_x) {
      for (int64_t i = 0; i < lines.length; ++i) {
        const int64_t k = in_index + i * lines.index_step;
        const C value = static_cast<C>(from[in_x + at[k] * lines.whole_step]);
        to[k] = T(accumulate ? static_cast<C>(to[k]) + value : value);
      }
    });
  });
}

void scatter_add(const Tensor& x, int dim, const Tensor& index, Tensor& y) {
  check_range("scatter_add", "index", index, y.dim(dim));
  dispatch_floating(x.dtype(), "scatter_add", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* from = x.data<T>();
    const int64_t* at = index.data<int64_t>();
    T* to = y.mutable_data<T>();
    // Elements meet only within a line, and a line belongs to one thread.
    const Lines lines(index.shape(), y.shape(), dim);
    lines.each([&](int64_t in_index, int64_t in_y) {
      for (int64_t i = 0; i < lines.length; ++i) {
        const int64_t k = in_index + i * lines.index_step;
        T& sum = to[in_y + at[k] * lines.whole_step];
        sum = T(static_cast<C>(sum) + static_cast<C>(from[k]));
      }
    });
  });
}

void embedding(const Tensor& weight, const Tensor& ids, Tensor& y) {
  check_range("embedding", "id", ids, weight.dim(0));
  dispatch_floating(weight.dtype(), "embedding", [&](auto zero) {
    using T = decltype(zero);
    const int64_t width = weight.dim(1);
    const T* table = weight.data<T>();
    const int64_t* id = ids.data<int64_t>();
    T* out = y.mutable_data<T>();
    parallel_for(ids.numel(), cpu::row_grain(width), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        std::copy_n(table + id[i] * width, width, out + i * width);
    });
  });
}

/// Positions by id: those of row v are order[first[v]] ... order[first[v + 1] - 1], rising.
struct ByRow {
  Tensor memory;
  int64_t* first;
  int64_t* order;

  ByRow(const Tensor& ids, int64_t rows, int64_t left_out)
      : memory(Tensor::empty({rows + 1 + ids.numel()}, DType::kI64)),
        first(memory.mutable_data<int64_t>()),
        order(first + rows + 1) {
    const int64_t* id = ids.data<int64_t>();
    std::fill_n(first, rows + 1, int64_t{0});
    for (int64_t i = 0; i < ids.numel(); ++i) first[id[i] + 1] += id[i] != left_out ? 1 : 0;
    for (int64_t v = 0; v < rows; ++v) first[v + 1] += first[v];
    // Each row's start moves to its end while it is filled, and so to the next row's start.
    for (int64_t i = 0; i < ids.numel(); ++i) {
      if (id[i] != left_out) order[first[id[i]]++] = i;
    }
    for (int64_t v = rows; v > 0; --v) first[v] = first[v - 1];
    first[0] = 0;
  }
};

void embedding_backward(const Tensor& grad_y, const Tensor& ids, int64_t padding_idx,
                        const Dest& grad_weight) {
  const int64_t rows = grad_weight.out.dim(0);
  const int64_t width = grad_weight.out.dim(1);
  check_range("embedding_backward", "id", ids, rows);
  const ByRow by_row(ids, rows, padding_idx);
  dispatch_floating(grad_y.dtype(), "embedding_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    constexpr int64_t kTile = 256;
    const T* g = grad_y.data<T>();
    Tensor target = grad_weight.out;
    T* out = target.mutable_data<T>();
    const auto add_row = [=, &by_row, accumulate = grad_weight.accumulate](int64_t v) {
      const int64_t begin = by_row.first[v], end = by_row.first[v + 1];
      T* row = out + v * width;
      if (begin == end) {
        if (!accumulate) std::fill_n(row, width, T(C(0)));
        return;
      }
      for (int64_t tile = 0; tile < width; tile += kTile) {
        const int64_t count = std::min(kTile, width - tile);
        C sum[kTile];
        for (int64_t c = 0; c < count; ++c) sum[c] = accumulate ? static_cast<C>(row[tile + c]) : 0;
        for (int64_t k = begin; k < end; ++k) {
          const T* from = g + by_row.order[k] * width + tile;
          for (int64_t c = 0; c < count; ++c) sum[c] += static_cast<C>(from[c]);
        }
        for (int64_t c = 0; c < count; ++c) row[tile + c] = T(sum[c]);
      }
    };
    parallel_for(rows, std::max<int64_t>(kGrain / std::max<int64_t>(width, 1), 1),
                 [&](int64_t first, int64_t last) {
                   for (int64_t v = first; v < last; ++v) add_row(v);
                 });
  });
}

}  // namespace

const IndexKernels kCpuIndex{.gather = gather,
                             .scatter_add = scatter_add,
                             .embedding = embedding,
                             .embedding_backward = embedding_backward};

}  // namespace lockstep
