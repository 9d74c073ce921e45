#include "lockstep/tensor/cuda/library.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/cuda/problem_cache.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>

namespace lockstep {
namespace {

template <class Fn>
std::string message_of(Fn&& fn) {
  try {
    fn();
  } catch (const UnsupportedError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a library that is missing, or older than it should be, is named with the remedy") {
  const std::string missing = message_of([] { cuda::Library("cuNothing", "libcunothing.so.77"); });
  CHECK(missing.find("cuda: cuNothing was not found (libcunothing.so.77: cannot open") == 0);
  CHECK(missing.find("; install it, or name its folder in LD_LIBRARY_PATH, or use --device cpu") !=
        std::string::npos);

  const cuda::Library math("the mathematics library", "libm.so.6");
  double (*cosine)(double) = nullptr;
  math.bind(cosine, "cos");
  CHECK(cosine(1.0) == std::cos(1.0));
  math.bind_if_there(cosine, "cosineOfTheFuture");
  CHECK((cosine == nullptr));
  math.bind_if_there(cosine, "cos");
  CHECK(cosine(1.0) == std::cos(1.0));
  CHECK(message_of([&] {
          math.bind(cosine, "cosineOfTheFuture");
        }).find("cuda: this the mathematics library has no cosineOfTheFuture (") == 0);
}

int waits = 0;

TEST_CASE(
    "a problem cache prepares once, remembers a refusal, and waits before it drops what it has") {
  using Key = cuda::ProblemKey<2>;
  cuda::ProblemCache<int, 2> cache(3, [] { ++waits; });
  int made = 0;
  const auto make = [&] { return std::make_unique<int>(++made); };
  CHECK(*cache.get(Key{1, 2}, make) == 1);
  CHECK(*cache.get(Key{2, 1}, make) == 2);
  CHECK(*cache.get(Key{1, 2}, make) == 1);
  int refusals = 0;
  const auto refuse = [&] {
    ++refusals;
    return std::unique_ptr<int>();
  };
  CHECK(cache.get(Key{3}, refuse) == nullptr);
  CHECK(cache.get(Key{3}, refuse) == nullptr);
  CHECK(refusals == 1);
  CHECK(waits == 0);
  CHECK(*cache.get(Key{4}, make) == 3);
  CHECK(waits == 1);
  CHECK(*cache.get(Key{1, 2}, make) == 4);
}

}  // namespace
}  // namespace lockstep
