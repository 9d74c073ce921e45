#include "lockstep/models/bert_init.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/random.h"

namespace lockstep {

void init_bert(Module& module, double deviation, Generator& rng) {
  for (auto& [name, parameter] : module.named_parameters()) {
    Tensor& values = parameter.mutable_data();
    if (values.ndim() == 2) {
      ops::normal(values, 0, deviation, rng);
    } else if (name.ends_with("bias")) {
      ops::fill(values, 0);
    }
  }
}

}  // namespace lockstep
