// CountingGroup: hands everything on to another group and counts it.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <string>
#include <utility>

namespace lockstep::testing {

class CountingGroup final : public ProcessGroup {
 public:
  explicit CountingGroup(ProcessGroup& inner) : inner_(inner) {}

  int64_t all_reduces = 0;
  int64_t broadcasts = 0;
  int64_t calls = 0;  // of all kinds

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const char* backend() const override { return inner_.backend(); }
  WorkPtr all_reduce(Tensor tensor, ReduceOp op) override {
    ++calls, ++all_reduces;
    return inner_.all_reduce(std::move(tensor), op);
  }
  WorkPtr broadcast(Tensor tensor, int root) override {
    ++calls, ++broadcasts;
    return inner_.broadcast(std::move(tensor), root);
  }
  WorkPtr all_gather(Tensor out, Tensor in) override {
    ++calls;
    return inner_.all_gather(std::move(out), std::move(in));
  }
  WorkPtr reduce_scatter(Tensor out, Tensor in, ReduceOp op) override {
    ++calls;
    return inner_.reduce_scatter(std::move(out), std::move(in), op);
  }
  WorkPtr all_to_all(Tensor out, Tensor in) override {
    ++calls;
    return inner_.all_to_all(std::move(out), std::move(in));
  }
  WorkPtr send(Tensor tensor, int to) override {
    ++calls;
    return inner_.send(std::move(tensor), to);
  }
  WorkPtr recv(Tensor tensor, int from) override {
    ++calls;
    return inner_.recv(std::move(tensor), from);
  }
  WorkPtr barrier() override {
    ++calls;
    return inner_.barrier();
  }
  std::unique_ptr<ProcessGroup> split(int color, int key) override {
    ++calls;
    return inner_.split(color, key);
  }
  void abort(std::string reason) override { inner_.abort(std::move(reason)); }

 private:
  ProcessGroup& inner_;
};

}  // namespace lockstep::testing
