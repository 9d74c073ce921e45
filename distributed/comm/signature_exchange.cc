#include "lockstep/distributed/comm/signature_exchange.h"

#include <stdexcept>

namespace lockstep::comm {
namespace {

constexpr std::chrono::milliseconds kSent{200};

}  // namespace

SignatureExchange::SignatureExchange(AbortableContext& context, uint64_t slot,
                                     std::chrono::milliseconds timeout)
    : rank_(context.rank),
      size_(context.size),
      slot_(slot),
      timeout_(timeout),
      arriving_(static_cast<size_t>(size_)),
      words_(static_cast<size_t>(size_)),
      to_(context.createUnboundBuffer(&mine_, sizeof mine_)),
      from_(context.createUnboundBuffer(arriving_.data(), arriving_.size() * sizeof mine_)) {
  expect_next();
}

void SignatureExchange::expect_next() {
  try {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      from_->recv(peer, slot_, static_cast<size_t>(peer) * sizeof mine_, sizeof mine_);
    }
  } catch (const std::exception&) {
    lost_ = std::current_exception();  // a rank that has gone may have been done
  }
}

void SignatureExchange::exchange(const RankWords& mine) {
  if (lost_) std::rethrow_exception(lost_);
  mine_ = mine;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) to_->send(peer, slot_, 0, sizeof mine_);
  }
  for (int peer = 1; peer < size_; ++peer) from_->waitRecv(timeout_);
  // A rank whose words have come has told before them where this one's are to go, so these have
  // been sent. Gloo can miss one, though, that it was handed while the connection was breaking.
  try {
    for (int peer = 1; peer < size_; ++peer) to_->waitSend(kSent);
  } catch (const std::exception&) {
    throw std::runtime_error("a connection broke while its words were sent");
  }
  words_ = arriving_;
  words_[static_cast<size_t>(rank_)] = mine;
  expect_next();
}

}  // namespace lockstep::comm
