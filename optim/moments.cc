#include "lockstep/optim/moments.h"

#include "lockstep/base/error.h"

#include <cmath>

namespace lockstep {

void check_moment_options(const char* optimizer, double beta1, double beta2, double eps,
                          double weight_decay) {
  check(beta1 >= 0 && beta1 < 1, optimizer, ": wanted 0 <= beta1 < 1, got ", beta1);
  check(beta2 >= 0 && beta2 < 1, optimizer, ": wanted 0 <= beta2 < 1, got ", beta2);
  check(std::isfinite(eps) && static_cast<float>(eps) > 0, optimizer,
        ": wanted eps > 0, also as an f32, got ", eps);
  check(std::isfinite(weight_decay) && weight_decay >= 0, optimizer,
        ": wanted weight_decay >= 0, got ", weight_decay);
}

}  // namespace lockstep
