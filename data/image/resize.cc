#include "lockstep/data/image/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lockstep {
namespace {

constexpr int kFractionBits = 22;  // 32 less the 8 of a byte and 2 for sums slightly above 255

// For each output position the inputs from `first` on that it is a weighted mean of.
struct Weights {
  std::vector<int64_t> first;  // relative to the crop
  std::vector<int64_t> counts;
  std::vector<int32_t> values;  // [positions, most]
  int64_t most = 0;

  /// Behind the last input that any position needs.
  int64_t end() const { return first.back() + counts.back(); }
  const int32_t* of(int64_t i) const { return values.data() + i * most; }
};

// Of output positions begin to begin + count - 1, of `to`, out of `from` inputs.
Weights make_weights(int64_t from, int64_t to, int64_t begin, int64_t count) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);  // of the triangle, either side
  Weights weights;
  weights.most = 2 * static_cast<int64_t>(std::ceil(support)) + 1;
  weights.values.assign(static_cast<size_t>(weights.most * count), 0);
  std::vector<double> row(static_cast<size_t>(weights.most));
  for (int64_t i = 0; i < count; ++i) {
    const double centre = (static_cast<double>(begin + i) + 0.5) * scale;
    const int64_t first =
        std::max<int64_t>(static_cast<int64_t>(std::floor(centre - support + 0.5)), 0);
    const int64_t last = std::min(static_cast<int64_t>(std::floor(centre + support + 0.5)), from);
    double sum = 0;
    for (int64_t k = 0; k < last - first; ++k) {
      const double distance = (static_cast<double>(first + k) - centre + 0.5) * (1 / support);
      const double value = std::max(0.0, 1.0 - std::abs(distance));
      row[static_cast<size_t>(k)] = value;
      sum += value;
    }
    for (int64_t k = 0; k < last - first; ++k) {
      weights.values[static_cast<size_t>(i * weights.most + k)] = static_cast<int32_t>(
          std::floor(row[static_cast<size_t>(k)] / sum * (1 << kFractionBits) + 0.5));
    }
    weights.first.push_back(first);
    weights.counts.push_back(last - first);
  }
  return weights;
}

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

constexpr int32_t kHalf = 1 << (kFractionBits - 1);

// Resized along the rows: `rows` rows, `stride` bytes apart; `from` is the crop's column `first`.
void resize_across(const uint8_t* from, int64_t stride, int64_t first, int64_t rows,
                   const Weights& weights, uint8_t* to) {
  for (int64_t y = 0; y < rows; ++y, from += stride) {
    for (size_t x = 0; x < weights.first.size(); ++x, to += 3) {
      const uint8_t* pixel = from + (weights.first[x] - first) * 3;
      const int32_t* weight = weights.of(static_cast<int64_t>(x));
      int32_t red = kHalf, green = kHalf, blue = kHalf;
      for (int64_t k = 0; k < weights.counts[x]; ++k, pixel += 3) {
        red += weight[k] * pixel[0];
        green += weight[k] * pixel[1];
        blue += weight[k] * pixel[2];
      }
      to[0] = to_byte(red);
      to[1] = to_byte(green);
      to[2] = to_byte(blue);
    }
  }
}

// Resized along the columns: rows of `row_bytes` bytes, `stride` apart; `from` is the crop's row
// `first`.
void resize_down(const uint8_t* from, int64_t stride, int64_t first, int64_t row_bytes,
                 const Weights& weights, uint8_t* to) {
  std::vector<int32_t> sums(static_cast<size_t>(row_bytes));
  for (size_t y = 0; y < weights.first.size(); ++y) {
    std::fill(sums.begin(), sums.end(), kHalf);
    const uint8_t* row = from + (weights.first[y] - first) * stride;
    for (int64_t k = 0; k < weights.counts[y]; ++k, row += stride) {
      const int32_t weight = weights.of(static_cast<int64_t>(y))[k];
      for (int64_t i = 0; i < row_bytes; ++i) sums[static_cast<size_t>(i)] += weight * row[i];
    }
    for (const int32_t sum : sums) *to++ = to_byte(sum);
  }
}

void check_part(const Box& part, int64_t height, int64_t width) {
  check(part.top >= 0 && part.left >= 0 && part.height >= 1 && part.width >= 1 &&
            part.height <= height - part.top && part.width <= width - part.left,
        "resize_bilinear: wanted a part of ", height, " x ", width, ", got ", part.height, " x ",
        part.width, " at row ", part.top, ", column ", part.left);
}

}  // namespace

void resize_bilinear(const Image& image, const Box& crop, int64_t height, int64_t width,
                     const Box& window, uint8_t* out) {
  check_part(crop, image.height, image.width);
  check_part(window, height, width);
  const Weights across = make_weights(crop.width, width, window.left, window.width);
  const Weights down = make_weights(crop.height, height, window.top, window.height);
  const int64_t row = down.first.front(), rows = down.end() - row;
  const int64_t column = across.first.front(), columns = across.end() - column;
  const uint8_t* from = image.at(crop.top + row, crop.left + column);
  const int64_t stride = image.width * 3;
  thread_local std::vector<uint8_t> between;  // kept: a new one for each image is page faults
  // The order matters to the last bit, as each pass rounds. This is Pillow's: along the rows first,
  // unless only the other pass makes the image smaller.
  if (height < crop.height && width > crop.width) {
    between.resize(static_cast<size_t>(window.height * columns * 3));
    resize_down(from, stride, row, columns * 3, down, between.data());
    resize_across(between.data(), columns * 3, column, window.height, across, out);
  } else {
    between.resize(static_cast<size_t>(rows * window.width * 3));
    resize_across(from, stride, column, rows, across, between.data());
    resize_down(between.data(), window.width * 3, row, window.width * 3, down, out);
  }
}

}  // namespace lockstep
