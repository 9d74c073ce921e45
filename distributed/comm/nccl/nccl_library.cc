// libnccl.so.2, loaded when it is first asked for. Compiled only with --config=cuda.
#include "lockstep/distributed/comm/nccl/nccl_library.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/tensor/cuda/library.h"
#include "lockstep/tensor/cuda/runtime.h"
#include "lockstep/tensor/memory.h"

#include <cuda_runtime.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstring>

namespace lockstep::comm {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
static_assert(static_cast<int>(NcclResult::kSuccess) == ncclSuccess);
static_assert(static_cast<int>(NcclResult::kUnhandledCudaError) == ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclResult::kSystemError) == ncclSystemError);
static_assert(static_cast<int>(NcclResult::kInternalError) == ncclInternalError);
static_assert(static_cast<int>(NcclResult::kInvalidArgument) == ncclInvalidArgument);
static_assert(static_cast<int>(NcclResult::kInvalidUsage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::kRemoteError) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::kInProgress) == ncclInProgress);

// The first with a limit of thread blocks.
constexpr int kOldest = NCCL_VERSION(2, 17, 0);

ncclDataType_t native(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI64:
      return ncclInt64;
    case DType::kI32:
      return ncclInt32;
    case DType::kU8:
      return ncclUint8;
  }
  throw ArgumentError("nccl: unknown dtype");
}

ncclRedOp_t native(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kMin:
      return ncclMin;
  }
  throw ArgumentError("nccl: unknown reduction");
}

ncclComm_t native(NcclComm& comm) { return reinterpret_cast<ncclComm_t>(&comm); }
NcclResult ours(ncclResult_t result) { return static_cast<NcclResult>(result); }

class NcclLibrary final : public NcclApi {
 public:
  NcclLibrary() {
    const cuda::Library library("NCCL", "libnccl.so.2");
#define LOCKSTEP_FIND(name) library.bind(name##_, #name)
    LOCKSTEP_FIND(ncclGetVersion);
    int version = 0;
    ncclGetVersion_(&version);
    if (version < kOldest) {
      throw UnsupportedError(str("backend nccl: wanted NCCL 2.17 or later, got version code ",
                                 version, "; use the backend gloo"));
    }
    LOCKSTEP_FIND(ncclGetUniqueId);
    LOCKSTEP_FIND(ncclCommInitRankConfig);
    LOCKSTEP_FIND(ncclCommGetAsyncError);
    LOCKSTEP_FIND(ncclCommFinalize);
    LOCKSTEP_FIND(ncclCommDestroy);
    LOCKSTEP_FIND(ncclCommAbort);
    LOCKSTEP_FIND(ncclAllReduce);
    LOCKSTEP_FIND(ncclBroadcast);
    LOCKSTEP_FIND(ncclAllGather);
    LOCKSTEP_FIND(ncclReduceScatter);
    LOCKSTEP_FIND(ncclSend);
    LOCKSTEP_FIND(ncclRecv);
    LOCKSTEP_FIND(ncclGroupStart);
    LOCKSTEP_FIND(ncclGroupEnd);
    LOCKSTEP_FIND(ncclGetErrorString);
    LOCKSTEP_FIND(ncclGetLastError);
#undef LOCKSTEP_FIND
    // Since 2.19.
    library.bind_if_there(ncclCommRegister_, "ncclCommRegister");
    library.bind_if_there(ncclCommDeregister_, "ncclCommDeregister");
  }

  NcclResult make_id(NcclId& id) override {
    ncclUniqueId made;
    const ncclResult_t result = ncclGetUniqueId_(&made);
    std::memcpy(id.bytes.data(), &made, sizeof made);
    return ours(result);
  }

  NcclResult init(NcclComm*& comm, int size, const NcclId& id, int rank,
                  const NcclConfig& config) override {
    cuda::bind_device();
    ncclUniqueId shared;
    std::memcpy(&shared, id.bytes.data(), sizeof shared);
    ncclConfig_t wanted = NCCL_CONFIG_INITIALIZER;
    wanted.blocking = 0;
    if (config.max_ctas > 0) wanted.maxCTAs = config.max_ctas;
    ncclComm_t made = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig_(&made, size, shared, rank, &wanted);
    comm = reinterpret_cast<NcclComm*>(made);
    return ours(result);
  }

  NcclResult async_error(NcclComm& comm) override {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError_(native(comm), &state);
    return ours(asked != ncclSuccess ? asked : state);
  }

  NcclResult finalize(NcclComm& comm) override { return ours(ncclCommFinalize_(native(comm))); }
  NcclResult destroy(NcclComm& comm) override { return ours(ncclCommDestroy_(native(comm))); }
  NcclResult abort(NcclComm& comm) override {
    cuda::bind_device();
    return ours(ncclCommAbort_(native(comm)));
  }

  NcclResult all_reduce(const void* in, void* out, size_t count, DType dtype, ReduceOp op,
                        NcclComm& comm, Stream& stream) override {
    return ours(ncclAllReduce_(in, out, count, native(dtype), native(op), native(comm),
                               cuda::native_stream(stream)));
  }
  NcclResult broadcast(const void* in, void* out, size_t count, DType dtype, int root,
                       NcclComm& comm, Stream& stream) override {
    return ours(ncclBroadcast_(in, out, count, native(dtype), root, native(comm),
                               cuda::native_stream(stream)));
  }
  NcclResult all_gather(const void* in, void* out, size_t count, DType dtype, NcclComm& comm,
                        Stream& stream) override {
    return ours(
        ncclAllGather_(in, out, count, native(dtype), native(comm), cuda::native_stream(stream)));
  }
  NcclResult reduce_scatter(const void* in, void* out, size_t count, DType dtype, ReduceOp op,
                            NcclComm& comm, Stream& stream) override {
    return ours(ncclReduceScatter_(in, out, count, native(dtype), native(op), native(comm),
                                   cuda::native_stream(stream)));
  }
  NcclResult send(const void* in, size_t count, DType dtype, int peer, NcclComm& comm,
                  Stream& stream) override {
    return ours(
        ncclSend_(in, count, native(dtype), peer, native(comm), cuda::native_stream(stream)));
  }
  NcclResult recv(void* out, size_t count, DType dtype, int peer, NcclComm& comm,
                  Stream& stream) override {
    return ours(
        ncclRecv_(out, count, native(dtype), peer, native(comm), cuda::native_stream(stream)));
  }
  NcclResult group_start() override { return ours(ncclGroupStart_()); }
  NcclResult group_end() override { return ours(ncclGroupEnd_()); }

  bool can_register() override {
    return ncclCommRegister_ != nullptr && ncclCommDeregister_ != nullptr;
  }
  NcclResult register_buffer(void* memory, size_t bytes, NcclComm& comm, void*& handle) override {
    cuda::bind_device();
    return ours(ncclCommRegister_(native(comm), memory, bytes, &handle));
  }
  NcclResult deregister_buffer(void* handle, NcclComm& comm) override {
    cuda::bind_device();
    return ours(ncclCommDeregister_(native(comm), handle));
  }

  std::string describe(NcclResult result, NcclComm* comm) override {
    const char* const last = ncclGetLastError_(comm != nullptr ? native(*comm) : nullptr);
    const char* const text = ncclGetErrorString_(static_cast<ncclResult_t>(result));
    if (last == nullptr || *last == '\0') return text;
    std::string words = last;
    for (char& c : words) {
      if (c == '\n') c = ' ';
    }
    return str(text, ": ", words);
  }

  std::string device_uuid() override {
    require_cuda();  // a machine without a driver says so
    cuda::bind_device();
    int device = 0;
    cuda::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    cudaDeviceProp properties;
    cuda::check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    std::string uuid = "GPU-";
    for (size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
      char digits[4];
      std::snprintf(digits, sizeof digits, "%s%02x",
                    i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                    static_cast<unsigned char>(properties.uuid.bytes[i]));
      uuid += digits;
    }
    return uuid;
  }

  void begin_range(std::string_view name) override {
    char text[OpText::kMost + 1];
    const size_t size = name.copy(text, OpText::kMost);
    text[size] = '\0';
    nvtxRangePushA(text);
  }
  void end_range() override { nvtxRangePop(); }

 private:
#define LOCKSTEP_POINTER(name) decltype(::name)* name##_ = nullptr
  LOCKSTEP_POINTER(ncclGetVersion);
  LOCKSTEP_POINTER(ncclGetUniqueId);
  LOCKSTEP_POINTER(ncclCommInitRankConfig);
  LOCKSTEP_POINTER(ncclCommGetAsyncError);
  LOCKSTEP_POINTER(ncclCommFinalize);
  LOCKSTEP_POINTER(ncclCommDestroy);
  LOCKSTEP_POINTER(ncclCommAbort);
  LOCKSTEP_POINTER(ncclAllReduce);
  LOCKSTEP_POINTER(ncclBroadcast);
  LOCKSTEP_POINTER(ncclAllGather);
  LOCKSTEP_POINTER(ncclReduceScatter);
  LOCKSTEP_POINTER(ncclSend);
  LOCKSTEP_POINTER(ncclRecv);
  LOCKSTEP_POINTER(ncclGroupStart);
  LOCKSTEP_POINTER(ncclGroupEnd);
  LOCKSTEP_POINTER(ncclGetErrorString);
  LOCKSTEP_POINTER(ncclGetLastError);
  LOCKSTEP_POINTER(ncclCommRegister);
  LOCKSTEP_POINTER(ncclCommDeregister);
#undef LOCKSTEP_POINTER
};

}  // namespace

NcclApi& nccl_library() {
  static auto* library = new NcclLibrary;  // the driver may be gone before static objects are
  return *library;
}

}  // namespace lockstep::comm
