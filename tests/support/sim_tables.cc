#include "lockstep/tests/support/sim_tables.h"

#include "lockstep/tensor/ops/activation.h"
#include "lockstep/tensor/ops/attention.h"
#include "lockstep/tensor/ops/conv.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/dropout.h"
#include "lockstep/tensor/ops/elementwise.h"
#include "lockstep/tensor/ops/group_norm.h"
#include "lockstep/tensor/ops/index.h"
#include "lockstep/tensor/ops/layout.h"
#include "lockstep/tensor/ops/loss.h"
#include "lockstep/tensor/ops/matmul.h"
#include "lockstep/tensor/ops/metrics.h"
#include "lockstep/tensor/ops/norm.h"
#include "lockstep/tensor/ops/optimizer.h"
#include "lockstep/tensor/ops/pair_loss.h"
#include "lockstep/tensor/ops/pool.h"
#include "lockstep/tensor/ops/random.h"
#include "lockstep/tensor/ops/reduce.h"
#include "lockstep/tensor/ops/select.h"
#include "lockstep/tensor/ops/softmax.h"
#include "lockstep/tensor/ops/unary.h"
#include "lockstep/tests/support/captured.h"
#include "lockstep/tests/support/sim_device.h"
#include "lockstep/tests/support/table_fields.h"

#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep::testing {
namespace {

/// Entry number I of Table: takes the arguments as they are now and runs the CPU's kernel on them
/// later.
template <class Table, size_t I, class Result, class... Args>
Result enqueued(Args... args) {
  static_assert(std::is_void_v<Result>,
                "a kernel's result must come through a tensor: nobody waits for it");
  auto& kernel = std::get<I>(fields(std::get<const Table&>(fields(backend(Device::cpu())))));
  SimDevice::current().enqueue(
      [&kernel, captured = std::tuple<Captured<std::remove_cvref_t<Args>>...>(args...)]() mutable {
        std::apply([&kernel](auto&... each) { kernel(each.value()...); }, captured);
      });
}

template <class Table, size_t... I>
Table wrap_table(std::index_sequence<I...>) {
  return Table{enqueued<Table, I>...};
}

template <class Table>
const Table& wrapped() {
  static const Table table = wrap_table<Table>(std::make_index_sequence<count_fields<Table>()>());
  return table;
}

/// Field number I of a Backend; the first three are not tables.
template <size_t I>
const auto& wrapped_field() {
  using Field = std::tuple_element_t<I, decltype(fields(std::declval<const Backend&>()))>;
  return wrapped<std::remove_cvref_t<Field>>();
}

template <size_t... I>
Backend wrap_all(const char* name, const DeviceMemory& memory, const DeviceStreams& streams,
                 std::index_sequence<I...>) {
  return Backend{name, memory, streams, wrapped_field<I + 3>()...};
}

}  // namespace

Backend wrap_backend(const char* name, const DeviceMemory& memory, const DeviceStreams& streams) {
  return wrap_all(name, memory, streams, std::make_index_sequence<count_fields<Backend>() - 3>());
}

}  // namespace lockstep::testing
