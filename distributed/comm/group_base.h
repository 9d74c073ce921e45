// GroupBase: what all backends share. It checks the arguments, writes each call down as an Op
// and hands it to submit().
#pragma once

#include "lockstep/distributed/comm/op.h"

#include <vector>

namespace lockstep::comm {

class GroupBase : public ProcessGroup {
 public:
  GroupBase(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const final { return rank_; }
  int size() const final { return size_; }

  WorkPtr all_reduce(Tensor tensor, ReduceOp op) final;
  WorkPtr broadcast(Tensor tensor, int root) final;
  WorkPtr all_gather(Tensor out, Tensor in) final;
  WorkPtr reduce_scatter(Tensor out, Tensor in, ReduceOp op) final;
  WorkPtr all_to_all(Tensor out, Tensor in) final;
  WorkPtr send(Tensor tensor, int to) final;
  WorkPtr recv(Tensor tensor, int from) final;
  WorkPtr barrier() final;
  std::unique_ptr<ProcessGroup> split(int color, int key) override;

 protected:
  /// One part of a split, as every member of it sees it.
  struct Subgroup {
    int64_t split_index;  // how many splits of this group came before, the same on every rank
    int color;
    std::vector<int> members;  // ranks of this group, in the order of their new ranks
    int rank;                  // this rank's place in members
  };

  /// Throws ArgumentError unless the group can work on the tensor's memory: the host's.
  virtual void check_place(const char* call, const Tensor& tensor) const;
  /// all_gather of a small host tensor, complete.
  virtual Tensor gather_host(const Tensor& mine);
  virtual WorkPtr submit(Op op) = 0;
  virtual std::unique_ptr<ProcessGroup> make_subgroup(const Subgroup& subgroup) = 0;

 private:
  void check_tensor(const char* call, const Tensor& tensor) const;
  void check_parts(const char* call, const char* large_name, const Tensor& large,
                   const char* small_name, const Tensor& small, int size) const;
  void check_peer(const char* call, const char* what, int peer) const;
  WorkPtr submit_pair(OpKind kind, Tensor out, Tensor in, ReduceOp op, int64_t count);

  const int rank_;
  const int size_;
  int64_t splits_ = 0;
};

}  // namespace lockstep::comm
