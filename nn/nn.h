// All layers.
#pragma once

#include "lockstep/nn/activation.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/nn/embedding.h"
#include "lockstep/nn/flatten.h"
#include "lockstep/nn/init.h"
#include "lockstep/nn/layer_drop.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/loss.h"
#include "lockstep/nn/module.h"
#include "lockstep/nn/multihead_attention.h"
#include "lockstep/nn/norm.h"
#include "lockstep/nn/pool.h"
#include "lockstep/nn/sequential.h"
