// fields(table): the members of an aggregate as a tuple, so that a test device can wrap every
// kernel of every table without naming one. At most 24 members.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

namespace lockstep::testing {

namespace detail {

/// Stands for a member of any type while members are counted.
struct AnyMember {
  AnyMember(size_t) {}
  template <class T>
  operator T&() const;
};

template <class Table, class Indices>
inline constexpr bool kTakes = false;
template <class Table, size_t... I>
requires requires { Table{AnyMember(I)...}; }
inline constexpr bool kTakes<Table, std::index_sequence<I...>> = true;

}  // namespace detail

/// Members are references, so an aggregate cannot be made from fewer values than it has members.
template <class Table, size_t N = 1>
constexpr size_t count_fields() {
  static_assert(N <= 24, "count_fields: more members than fields() knows");
  if constexpr (detail::kTakes<Table, std::make_index_sequence<N>>) {
    return N;
  } else {
    return count_fields<Table, N + 1>();
  }
}

template <class Table>
auto fields(const Table& t) {
  constexpr size_t kCount = count_fields<Table>();
  // clang-format off
#define LOCKSTEP_FIELDS(n, ...) \
  if constexpr (kCount == n) { const auto& [__VA_ARGS__] = t; return std::forward_as_tuple(__VA_ARGS__); } else
  LOCKSTEP_FIELDS(1, a)
  LOCKSTEP_FIELDS(2, a, b)
  LOCKSTEP_FIELDS(3, a, b, c)
  LOCKSTEP_FIELDS(4, a, b, c, d)
  LOCKSTEP_FIELDS(5, a, b, c, d, e)
  LOCKSTEP_FIELDS(6, a, b, c, d, e, f)
  LOCKSTEP_FIELDS(7, a, b, c, d, e, f, g)
  LOCKSTEP_FIELDS(8, a, b, c, d, e, f, g, h)
  LOCKSTEP_FIELDS(9, a, b, c, d, e, f, g, h, i)
  LOCKSTEP_FIELDS(10, a, b, c, d, e, f, g, h, i, j)
  LOCKSTEP_FIELDS(11, a, b, c, d, e, f, g, h, i, j, k)
  LOCKSTEP_FIELDS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  LOCKSTEP_FIELDS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  LOCKSTEP_FIELDS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  LOCKSTEP_FIELDS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  LOCKSTEP_FIELDS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  LOCKSTEP_FIELDS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  LOCKSTEP_FIELDS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  LOCKSTEP_FIELDS(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  LOCKSTEP_FIELDS(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u)
  LOCKSTEP_FIELDS(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v)
  LOCKSTEP_FIELDS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w)
  LOCKSTEP_FIELDS(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x)
  LOCKSTEP_FIELDS(24, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y)
  static_assert(kCount <= 24);
#undef LOCKSTEP_FIELDS
  // clang-format on
}

}  // namespace lockstep::testing
