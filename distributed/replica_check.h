// Whether the ranks still hold one model: 64-bit hashes of their tensors, compared. 8 bytes travel
// for each tensor, and each rank reads its tensors once.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/tensor/named_tensor.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// A hash of the bytes of a host tensor. Tensors whose bytes differ have different hashes but for a
/// chance of 2^-64.
uint64_t hash_of_bytes(const Tensor& tensor);

struct ReplicaDifference {
  std::string tensor;  // the first in the list that is not the same on every rank
  int rank = 0;        // the first rank that differs: from most of the others, else from rank 0
  bool from_most = false;
};

/// Collective: the first difference, the same on every rank. The ranks' lists are alike in number
/// and order, as after DataParallel's construction. Not while a backward runs.
std::optional<ReplicaDifference> first_replica_difference(std::span<const NamedTensor> tensors,
                                                          ProcessGroup& group);

std::vector<NamedTensor> values_of(std::span<const NamedParameter> parameters);

/// Collective: throws Error on every rank, with one text, when the parameters are not the same bit
/// for bit. `when` as in "after step 30".
void require_equal_replicas(std::span<const NamedParameter> parameters, ProcessGroup& group,
                            const std::string& when);

}  // namespace lockstep
