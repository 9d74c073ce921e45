// Five steps against torch.optim.SGD (tests/golden/make_models.py, sgd()).
#include "lockstep/io/safetensors.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

TEST_CASE("five steps of three groups equal PyTorch's") {
  const TensorFile golden = read_safetensors("tests/golden/sgd.safetensors");
  std::vector<NamedParameter> p;
  for (const char* name : {"a", "b", "c", "d"}) {
    p.push_back({name, Variable(ops::clone(golden.at(str("before.", name))), true)});
  }
  Sgd sgd({{{p[0], p[1]}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}},
           {{p[2]}, {.lr = 0.05, .momentum = 0.8}},
           {{p[3]}, {.lr = 0.2, .weight_decay = 0.1}}});
  for (int step = 0; step < 5; ++step) {
    sgd.zero_grad();
    for (auto& [name, parameter] : p) {
      const Tensor* grad = golden.find(str("grad", step, ".", name));
      parameter.bind_grad(grad ? ops::clone(*grad) : Tensor());
      if (grad) parameter.set_grad_defined(true);
    }
    sgd.step();
    for (const auto& [name, parameter] : p) {
      CAPTURE(step);
      CAPTURE(name);
      // PyTorch rounds after each operation where the kernel may fuse two: a few units of the last
      // place.
      CHECK(testing::relative_difference(parameter.data(),
                                         golden.at(str("after", step, ".", name))) <= 1e-6);
    }
  }
}

}  // namespace
}  // namespace lockstep
