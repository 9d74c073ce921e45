#include "lockstep/tensor/ops/index.h"

#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

/// Numbers in [0, extent), many of them more than once.
Tensor indexes(const Shape& shape, int64_t extent, uint64_t step = 7) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(static_cast<int64_t>(static_cast<uint64_t>(i * i + 3) * step) % extent);
  return Tensor::from<int64_t>(values, shape);
}

struct Case {
  Shape whole, index;
  int dim;
};

// The last has too many places for a thread each: there a thread takes a line.
const Case kCases[] = {{{7}, {5}, 0},
                       {{6, 5, 4}, {3, 5, 4}, 0},
                       {{6, 5, 4}, {4, 9, 3}, 1},
                       {{6, 5, 4}, {6, 5, 300}, 2},
                       {{3, 4}, {0, 4}, 0},
                       {{70000, 4}, {9, 3}, 0}};

TEST_CASE("gather on cuda equals the CPU's to the bit") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const Case& c : kCases) {
        const Tensor x = random_tensor(c.whole, 1, -1, 1, dtype);
        const Tensor index = indexes(c.index, std::min<int64_t>(c.whole[c.dim], 8));
        const Tensor before = random_tensor(c.index, 2, -1, 1, dtype);
        for (const bool accumulate : {false, true}) {
          const Tensor wanted = into(Device::cpu(), before, accumulate,
                                     [&](const Dest& d) { ops::gather(x, c.dim, index, d); });
          const Tensor got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
            ops::gather(to_cuda(x), c.dim, to_cuda(index), d);
          });
          CHECK(relative_difference(got, wanted) == 0);
        }
      }
    }
  });
}

TEST_CASE("scatter_add on cuda equals the CPU's to the bit: what meets is added in order") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const Case& c : kCases) {
        INFO(std::string(name_of(dtype)), " ", c.whole.to_string(), " by ", c.index.to_string());
        const Tensor x = random_tensor(c.index, 1, -1, 1, dtype);
        const Tensor index = indexes(c.index, std::min<int64_t>(c.whole[c.dim], 8));
        const Tensor before = random_tensor(c.whole, 2, -1, 1, dtype);
        const Tensor wanted = into(Device::cpu(), before, true, [&](const Dest& d) {
          Tensor y = d.out;
          ops::scatter_add(x, c.dim, index, y);
        });
        const Tensor got = into(Device::cuda(), before, true, [&](const Dest& d) {
          Tensor y = d.out;
          ops::scatter_add(to_cuda(x), c.dim, to_cuda(index), y);
        });
        CHECK(relative_difference(got, wanted) == 0);
      }
    }
  });
}

TEST_CASE("embedding on cuda equals the CPU's to the bit") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const int64_t width : {1, 5, 48, 0}) {
        for (const Shape& shape : {Shape({3, 7}), Shape({0}), Shape({})}) {
          const Tensor weight = random_tensor({37, width}, 1, -1, 1, dtype);
          const Tensor ids = indexes(shape, 37);
          CHECK(relative_difference(to_cpu(ops::embedding(to_cuda(weight), to_cuda(ids))),
                                    ops::embedding(weight, ids)) == 0);
        }
      }
    }
  });
}

TEST_CASE("the gradient of embedding on cuda equals the CPU's, and each row is written") {
  struct Extents {
    int64_t rows, width, count;
  };
  on_cuda_device([] {
    // One row of blocks for the ids; several columns of blocks; shared ids, because there are few
    // rows; several windows of ids.
    for (const Extents& e :
         {Extents{37, 5, 21}, {20, 300, 127}, {3, 17, 700}, {2050, 3, 600}, {9, 4, 0}}) {
      for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
        if (e.rows > 2048 && dtype != DType::kBF16) continue;
        // Sums of up to 234 numbers in another order; bf16 rounds once, at the end.
        const double tolerance = dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 5e-6 : 8e-3;
        const Tensor ids = indexes({e.count}, e.rows, 1);
        const Tensor grad = random_tensor({e.count, e.width}, 1, -1, 1, dtype);
        const Tensor before = random_tensor({e.rows, e.width}, 2, -1, 1, dtype);
        for (const int64_t padding_idx : {-1, 3}) {
          if (e.rows > 2048 && padding_idx < 0) continue;
          for (const bool accumulate : {false, true}) {
            INFO(std::string(name_of(dtype)), " ", e.rows, " rows, padding ", padding_idx, ", ",
                 accumulate);
            const Tensor wanted = into(Device::cpu(), before, accumulate, [&](const Dest& d) {
              ops::embedding_backward(grad, ids, padding_idx, d);
            });
            const Tensor got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
              ops::embedding_backward(to_cuda(grad), to_cuda(ids), padding_idx, d);
            });
            CHECK(relative_difference(got, wanted) <= tolerance);
          }
        }
      }
    }
  });
}

TEST_CASE("on cuda an index that is out of range reads NaN and adds nothing") {
  on_cuda_device([] {
    const Tensor table = random_tensor({4, 2}, 1);
    const Tensor wrong = to_cuda(Tensor::from<int64_t>({1, 4, -1}, {3}));
    const auto rows = to_cpu(ops::embedding(to_cuda(table), wrong)).to_vector<double>();
    for (size_t i = 0; i < rows.size(); ++i) CHECK(std::isnan(rows[i]) == (i >= 2));
    const Tensor grad = random_tensor({3, 2}, 2);
    const auto sums = into(Device::cuda(), table, false, [&](const Dest& d) {
                        ops::embedding_backward(to_cuda(grad), wrong, -1, d);
                      }).to_vector<double>();
    for (size_t i = 0; i < sums.size(); ++i)
      CHECK(sums[i] == (i / 2 == 1 ? grad.to_vector<double>()[i % 2] : 0));

    const Tensor line = random_tensor({4}, 3);
    const auto read = to_cpu(ops::gather(to_cuda(line), 0, wrong)).to_vector<double>();
    CHECK(read[0] == line.to_vector<double>()[1]);
    CHECK(std::isnan(read[1]));
    CHECK(std::isnan(read[2]));
    const auto added =
        into(Device::cuda(), Tensor::zeros({4}, DType::kF64), true, [&](const Dest& d) {
          Tensor y = d.out;
          ops::scatter_add(to_cuda(random_tensor({3}, 4)), 0, wrong, y);
        }).to_vector<double>();
    for (size_t i = 0; i < added.size(); ++i) CHECK((added[i] != 0) == (i == 1));
  });
}

}  // namespace
}  // namespace lockstep
