// NcclApi: the functions of NCCL that a group needs, as a table. nccl_library.h has NCCL's own;
// tests have one of theirs, with delays, errors and hangs.
//
// Communicators do not block: a call may answer kInProgress, and the next one must wait until
// async_error() answers something else. A collective is on its stream only then.
//
// Threads: of one communicator one call at a time, but for abort(), which ends a call in progress.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/tensor/stream.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::comm {

/// The numbers are NCCL's.
enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,  // another rank has failed, or the connection to it
  kInProgress = 7,
};

/// What the ranks of one communicator share.
struct NcclId {
  std::array<char, 128> bytes{};
};

/// A communicator of the library; never defined here.
struct NcclComm;

struct NcclConfig {
  int max_ctas = 0;  // thread blocks that a collective may take from computing; 0: NCCL's choice
};

class NcclApi {
 public:
  virtual ~NcclApi() = default;

  virtual NcclResult make_id(NcclId& id) = 0;
  /// Of the calling thread's GPU. `comm` is set also where the answer is kInProgress.
  virtual NcclResult init(NcclComm*& comm, int size, const NcclId& id, int rank,
                          const NcclConfig& config) = 0;
  virtual NcclResult async_error(NcclComm& comm) = 0;
  /// Before destroy(): lets what is under way end.
  virtual NcclResult finalize(NcclComm& comm) = 0;
  virtual NcclResult destroy(NcclComm& comm) = 0;
  /// Ends what is under way, on this rank alone, and destroys.
  virtual NcclResult abort(NcclComm& comm) = 0;

  /// Counts are elements: of the buffer, or for all_gather of `in`, for reduce_scatter of `out`.
  virtual NcclResult all_reduce(const void* in, void* out, size_t count, DType dtype, ReduceOp op,
                                NcclComm& comm, Stream& stream) = 0;
  virtual NcclResult broadcast(const void* in, void* out, size_t count, DType dtype, int root,
                               NcclComm& comm, Stream& stream) = 0;
  virtual NcclResult all_gather(const void* in, void* out, size_t count, DType dtype,
                                NcclComm& comm, Stream& stream) = 0;
  virtual NcclResult reduce_scatter(const void* in, void* out, size_t count, DType dtype,
                                    ReduceOp op, NcclComm& comm, Stream& stream) = 0;
  virtual NcclResult send(const void* in, size_t count, DType dtype, int peer, NcclComm& comm,
                          Stream& stream) = 0;
  virtual NcclResult recv(void* out, size_t count, DType dtype, int peer, NcclComm& comm,
                          Stream& stream) = 0;
  /// What this thread calls between the two becomes one operation.
  virtual NcclResult group_start() = 0;
  virtual NcclResult group_end() = 0;

  /// Whether this NCCL has the next two.
  virtual bool can_register() = 0;
  /// Until deregister_buffer() or the end of `comm`: collectives of `comm` within the memory may
  /// read and write it without copies inside. `handle` may be null, which is one, too. While they
  /// use it the memory is not deregistered, and it is not freed before.
  virtual NcclResult register_buffer(void* memory, size_t bytes, NcclComm& comm, void*& handle) = 0;
  virtual NcclResult deregister_buffer(void* handle, NcclComm& comm) = 0;

  /// In words, with what NCCL said last about `comm` (may be null).
  virtual std::string describe(NcclResult result, NcclComm* comm) = 0;
  /// "GPU-8d7f...": the calling thread's GPU, unlike any other.
  virtual std::string device_uuid() = 0;

  /// A named range of this thread, for profilers.
  virtual void begin_range(std::string_view name) = 0;
  virtual void end_range() = 0;
};

}  // namespace lockstep::comm
