#include "lockstep/tests/support/fake_nccl.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/support/fake_clique.h"
#include "lockstep/tests/support/fake_memory.h"
#include "lockstep/tests/support/sim_device.h"
#include "lockstep/tests/support/sim_stream.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <utility>

namespace lockstep::testing {

using comm::NcclComm;
using comm::NcclConfig;
using comm::NcclId;
using comm::NcclResult;
using std::chrono::steady_clock;

namespace {

struct Letter {
  bool send = false;
  const void* in = nullptr;
  void* out = nullptr;
  size_t bytes = 0;
  int peer = 0;
};

struct FakeComm {
  std::shared_ptr<FakeClique> clique;
  int rank = 0;
  FakeNcclOptions options;
  std::atomic<bool> ended{false};  // aborted or destroyed
  std::atomic<bool> busy{false};   // a call is running
  std::atomic<int> in_flight{0};
  // One call at a time.
  bool ready = false;
  int64_t calls = 0;
  int64_t meetings = 0;
  bool finalizing = false;
  std::function<void()> pending;  // goes on its stream at `due`
  steady_clock::time_point due;
  bool stuck = false;  // never does
  std::atomic<bool> broken{false};
  FakeMemory memory;
};

/// The group that this thread is in.
struct OpenGroup {
  int depth = 0;
  FakeComm* comm = nullptr;
  Stream* stream = nullptr;
  std::vector<Letter> letters;
};
thread_local OpenGroup open_group;

}  // namespace

struct FakeNccl::State {
  mutable std::mutex mutex;
  int64_t ids = 0;
  int apis = 0;
  int max_ctas = 0;
  int registrations = 0;
  std::map<std::string, std::shared_ptr<FakeClique>> cliques;  // by id
  std::vector<std::shared_ptr<FakeComm>> comms;                // also ended ones
  std::vector<std::string> misuses;
  std::vector<std::string> ranges;
  std::minstd_rand random{1};

  void misuse(std::string what) {
    const std::lock_guard lock(mutex);
    misuses.push_back(std::move(what));
  }
  std::chrono::microseconds below(std::chrono::microseconds most) {
    const std::lock_guard lock(mutex);
    return std::chrono::microseconds(most.count() == 0 ? 0 : random() % most.count());
  }
};

namespace {

/// A call that uses a communicator, while it lives.
class Call {
 public:
  Call(FakeNccl::State& state, NcclComm& comm, const char* name)
      : comm_(*reinterpret_cast<FakeComm*>(&comm)) {
    if (comm_.ended) state.misuse(str(name, " of a communicator that has ended"));
    if (comm_.busy.exchange(true)) state.misuse(str(name, " beside another call"));
  }
  ~Call() { comm_.busy = false; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  FakeComm& operator*() { return comm_; }
  FakeComm* operator->() { return &comm_; }

 private:
  FakeComm& comm_;
};

class FakeApi final : public comm::NcclApi {
 public:
  FakeApi(std::shared_ptr<FakeNccl::State> state, FakeNcclOptions options)
      : state_(std::move(state)), options_(std::move(options)) {
    const std::lock_guard lock(state_->mutex);
    if (options_.uuid.empty()) options_.uuid = str("GPU-", state_->apis);
    ++state_->apis;
  }

  NcclResult make_id(NcclId& id) override {
    const std::lock_guard lock(state_->mutex);
    const std::string text = str("id ", state_->ids++);
    std::copy(text.begin(), text.end(), id.bytes.begin());
    return options_.id_result;
  }

  NcclResult init(NcclComm*& comm, int size, const NcclId& id, int rank,
                  const NcclConfig& config) override {
    if (options_.at_init) options_.at_init();
    auto made = std::make_shared<FakeComm>();
    made->rank = rank;
    made->options = options_;
    made->due = steady_clock::now() + state_->below(options_.in_progress);
    const std::lock_guard lock(state_->mutex);
    auto& clique = state_->cliques[id.bytes.data()];
    if (clique == nullptr) clique = std::make_shared<FakeClique>(size);
    made->clique = clique;
    clique->arrive(rank);
    state_->max_ctas = std::max(state_->max_ctas, config.max_ctas);
    comm = reinterpret_cast<NcclComm*>(made.get());
    state_->comms.push_back(std::move(made));
    return NcclResult::kInProgress;
  }

  NcclResult async_error(NcclComm& handle) override {
    Call comm(*state_, handle, "async_error");
    const bool due = steady_clock::now() >= comm->due;
    if (!comm->ready) {
      if (options_.init_result != NcclResult::kSuccess && due) return options_.init_result;
      comm->ready = !options_.init_hangs && due && comm->clique->complete();
      return comm->ready ? NcclResult::kSuccess : NcclResult::kInProgress;
    }
    if (comm->broken) return options_.error;
    if (comm->finalizing) {
      return options_.finalize_hangs || !due ? NcclResult::kInProgress : NcclResult::kSuccess;
    }
    if (comm->pending != nullptr) {
      if (!due || comm->stuck) return NcclResult::kInProgress;
      std::exchange(comm->pending, nullptr)();
    }
    return NcclResult::kSuccess;
  }

  NcclResult finalize(NcclComm& handle) override {
    Call comm(*state_, handle, "finalize");
    if (comm->in_flight > 0) state_->misuse("finalize with collectives in flight");
    comm->finalizing = true;
    comm->due = steady_clock::now() + state_->below(options_.in_progress);
    return NcclResult::kInProgress;
  }

  NcclResult destroy(NcclComm& handle) override {
    Call comm(*state_, handle, "destroy");
    if (!comm->finalizing) state_->misuse("destroy without finalize");
    if (comm->memory.registered() > 0) state_->misuse("destroy with registered memory");
    comm->ended = true;
    return NcclResult::kSuccess;
  }

  NcclResult abort(NcclComm& handle) override {
    auto& comm = *reinterpret_cast<FakeComm*>(&handle);
    if (comm.ended.exchange(true)) state_->misuse("abort of a communicator that has ended");
    comm.clique->wake();
    return NcclResult::kSuccess;
  }

  NcclResult all_reduce(const void* in, void* out, size_t count, DType dtype, ReduceOp op,
                        NcclComm& comm, Stream& stream) override {
    const size_t bytes = count * size_of(dtype);
    return collective({"all_reduce", in, out, bytes, bytes, dtype, op, -1}, comm, stream);
  }
  NcclResult broadcast(const void* in, void* out, size_t count, DType dtype, int root,
                       NcclComm& comm, Stream& stream) override {
    const size_t bytes = count * size_of(dtype);
    return collective({"broadcast", in, out, bytes, bytes, dtype, {}, root}, comm, stream);
  }
  NcclResult all_gather(const void* in, void* out, size_t count, DType dtype, NcclComm& comm,
                        Stream& stream) override {
    const size_t bytes = count * size_of(dtype);
    return collective({"all_gather", in, out, bytes, bytes * size_of_clique(comm), dtype, {}, -1},
                      comm, stream);
  }
  NcclResult reduce_scatter(const void* in, void* out, size_t count, DType dtype, ReduceOp op,
                            NcclComm& comm, Stream& stream) override {
    const size_t bytes = count * size_of(dtype);
    return collective(
        {"reduce_scatter", in, out, bytes * size_of_clique(comm), bytes, dtype, op, -1}, comm,
        stream);
  }
  NcclResult send(const void* in, size_t count, DType dtype, int peer, NcclComm& comm,
                  Stream& stream) override {
    return letter({true, host_address(in), nullptr, count * size_of(dtype), peer}, comm, stream);
  }
  NcclResult recv(void* out, size_t count, DType dtype, int peer, NcclComm& comm,
                  Stream& stream) override {
    return letter({false, nullptr, host_address(out), count * size_of(dtype), peer}, comm, stream);
  }

  NcclResult group_start() override {
    ++open_group.depth;
    return NcclResult::kSuccess;
  }
  NcclResult group_end() override {
    if (--open_group.depth > 0 || open_group.letters.empty()) return NcclResult::kSuccess;
    const OpenGroup group = std::exchange(open_group, {});
    Call comm(*state_, *reinterpret_cast<NcclComm*>(group.comm), "group_end");
    return exchange_letters(*comm, group.letters, *group.stream);
  }

  bool can_register() override { return options_.can_register; }
  NcclResult register_buffer(void* memory, size_t bytes, NcclComm& handle, void*& made) override {
    Call comm(*state_, handle, "register_buffer");
    if (!options_.can_register) state_->misuse("register_buffer, which this NCCL lacks");
    if (options_.register_result != NcclResult::kSuccess) return options_.register_result;
    int64_t number = 0;
    {
      const std::lock_guard lock(state_->mutex);
      number = ++state_->registrations;
    }
    if (!comm->memory.add(number, memory, bytes)) state_->misuse("memory registered twice");
    made = reinterpret_cast<void*>(number);
    return NcclResult::kSuccess;
  }
  NcclResult deregister_buffer(void* made, NcclComm& handle) override {
    Call comm(*state_, handle, "deregister_buffer");
    const auto removed = comm->memory.remove(reinterpret_cast<int64_t>(made));
    if (removed == FakeMemory::Removed::kInUse) state_->misuse("deregister_buffer while in use");
    if (removed != FakeMemory::Removed::kUnknown) return NcclResult::kSuccess;
    state_->misuse("deregister_buffer of what is not registered");
    return NcclResult::kInvalidArgument;
  }

  std::string describe(NcclResult result, NcclComm*) override {
    return str("result ", static_cast<int>(result), " of the fake");
  }
  std::string device_uuid() override { return options_.uuid; }
  void begin_range(std::string_view name) override {
    const std::lock_guard lock(state_->mutex);
    state_->ranges.emplace_back(name);
  }
  void end_range() override {}

 private:
  static size_t size_of_clique(NcclComm& comm) {
    return static_cast<size_t>(reinterpret_cast<FakeComm*>(&comm)->clique->size());
  }

  /// Puts it on the stream, now or when it is no longer in progress.
  NcclResult enqueue(FakeComm& comm, Stream& stream, std::function<void()> work) {
    const int64_t number = comm.calls++;
    if (!comm.ready) state_->misuse("a collective before the ranks are connected");
    if (comm.pending != nullptr) state_->misuse("a collective while another is in progress");
    if (number == options_.refuse_at) return options_.error;
    if (number == options_.error_at) comm.broken = true;
    if (number == options_.error_at || number == options_.hang_at) {
      work = [&comm] { comm.clique->wait_for_end(comm.ended); };
    }
    ++comm.in_flight;
    auto start = [&comm, &stream, work = std::move(work)] {
      static_cast<SimStream&>(stream).enqueue([&comm, work] {
        work();
        --comm.in_flight;
      });
    };
    const auto later = state_->below(options_.in_progress);
    if (later.count() == 0 && number != options_.in_progress_at) {
      start();
      return NcclResult::kSuccess;
    }
    comm.pending = std::move(start);
    comm.due = steady_clock::now() + later;
    comm.stuck = number == options_.in_progress_at;
    return NcclResult::kInProgress;
  }

  NcclResult collective(FakeCall call, NcclComm& handle, Stream& stream) {
    const void* used = call.out;
    call.in = host_address(call.in);
    call.out = host_address(call.out);
    Call comm(*state_, handle, call.name.c_str());
    FakeComm& c = *comm;
    c.memory.begin_use(used);
    return enqueue(c, stream, [&c, used, call = std::move(call), index = c.meetings++] {
      c.clique->run(index, c.rank, call, c.ended);
      c.memory.end_use(used);
    });
  }

  NcclResult letter(const Letter& one, NcclComm& handle, Stream& stream) {
    if (open_group.depth > 0) {
      open_group.comm = reinterpret_cast<FakeComm*>(&handle);
      open_group.stream = &stream;
      open_group.letters.push_back(one);
      return NcclResult::kSuccess;
    }
    Call comm(*state_, handle, "send or recv");
    return exchange_letters(*comm, {one}, stream);
  }

  NcclResult exchange_letters(FakeComm& c, const std::vector<Letter>& letters, Stream& stream) {
    return enqueue(c, stream, [&c, letters] {
      for (const Letter& l : letters) {
        if (!l.send) continue;
        const auto* first = static_cast<const std::byte*>(l.in);
        c.clique->post(c.rank, l.peer, {first, first + l.bytes});
      }
      for (const Letter& l : letters) {
        if (!l.send) c.clique->fetch(l.peer, c.rank, l.out, l.bytes, c.ended);
      }
    });
  }

  const std::shared_ptr<FakeNccl::State> state_;
  FakeNcclOptions options_;
};

}  // namespace

FakeNccl::FakeNccl() : state_(std::make_shared<State>()) {}
FakeNccl::~FakeNccl() = default;

std::unique_ptr<comm::NcclApi> FakeNccl::rank(FakeNcclOptions options) {
  return std::make_unique<FakeApi>(state_, std::move(options));
}

std::vector<std::string> FakeNccl::misuses() const {
  const std::lock_guard lock(state_->mutex);
  return state_->misuses;
}

std::vector<std::string> FakeNccl::ranges() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ranges;
}

int FakeNccl::max_ctas() const {
  const std::lock_guard lock(state_->mutex);
  return state_->max_ctas;
}

int FakeNccl::registrations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->registrations;
}

int FakeNccl::registered() const {
  std::vector<std::shared_ptr<FakeComm>> comms;
  {
    const std::lock_guard lock(state_->mutex);
    comms = state_->comms;
  }
  int count = 0;
  for (const auto& comm : comms) {
    if (!comm->ended) count += comm->memory.registered();
  }
  return count;
}

int FakeNccl::live() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int>(std::count_if(state_->comms.begin(), state_->comms.end(),
                                        [](const auto& comm) { return !comm->ended; }));
}

}  // namespace lockstep::testing
