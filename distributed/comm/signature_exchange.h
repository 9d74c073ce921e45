// What all ranks are about to do, told to each other before they do it, and what little they
// reduce.
//
// This stands before every collective, so it is made of as few messages as Gloo can do: where ranks
// compute on every core, each one takes a thread's turn from a computing one, which the rounds of
// Gloo's own algorithms did for some 2 milliseconds between two such ranks. Every rank sends its
// words to each other one directly, and where they are to arrive is told when the exchange before
// has ended, so that they are not asked for. A few numbers to be reduced are in the same message.
#pragma once

#include "lockstep/distributed/comm/abortable_context.h"
#include "lockstep/distributed/comm/op.h"

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <vector>

namespace lockstep::comm {

/// What a rank tells.
struct RankWords {
  static constexpr size_t kMostBytes = 64;

  PackedSignature signature{};
  alignas(8) std::array<std::byte, kMostBytes> payload{};
};

class SignatureExchange {
 public:
  /// Where `context` is connected. `slot` is used for nothing else.
  SignatureExchange(AbortableContext& context, uint64_t slot, std::chrono::milliseconds timeout);

  /// Collective; once it returns every rank has called it. Throws what Gloo throws for a connection
  /// that is lost or a rank that does not come in time.
  void exchange(const RankWords& mine);
  /// In order of rank, until the next exchange().
  const std::vector<RankWords>& words() const { return words_; }

 private:
  void expect_next();

  const int rank_, size_;
  const uint64_t slot_;
  const std::chrono::milliseconds timeout_;
  RankWords mine_;
  std::vector<RankWords> arriving_, words_;
  std::exception_ptr lost_;  // a connection, since the exchange before
  // Behind what they point to.
  std::unique_ptr<gloo::transport::UnboundBuffer> to_, from_;
};

}  // namespace lockstep::comm
