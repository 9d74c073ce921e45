// Initial values of BERT's parameters. Private to models/.
#pragma once

#include "lockstep/nn/module.h"
#include "lockstep/tensor/random.h"

namespace lockstep {

/// Every matrix of `module` from N(0, deviation^2), every bias 0; the weights of normalisations
/// stay at 1.
void init_bert(Module& module, double deviation, Generator& rng);

}  // namespace lockstep
