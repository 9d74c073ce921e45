// Whatever is wrong with what it is given, train_resnet says so in one line, returns 1 or 2, and
// touches nothing.
#include "lockstep/tests/examples/refused.h"
#include "lockstep/tests/support/temp_dir.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace lockstep {
namespace {

using testing::Process;
using testing::ProcessOptions;
using testing::run_trainer;
using testing::start_trainer;

void refused(const std::vector<std::string>& arguments, const std::string& words,
             const ProcessOptions& options = {}) {
  testing::check_refused("examples/train_resnet/train_resnet", arguments, words, options);
}

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

/// An images file of the IDX format that promises `count` images of 28 x 28 and holds `bytes` bytes
/// of them.
std::string idx_images(uint32_t count, size_t bytes) {
  return big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28) +
         std::string(bytes, '\1');
}
std::string idx_labels(uint32_t count, size_t bytes) {
  return big_endian(0x801) + big_endian(count) + std::string(bytes, '\1');
}

void write_mnist(const testing::TempDir& dir, const std::string& images,
                 const std::string& labels) {
  for (const std::string part : {"train", "t10k"}) {
    testing::write_file(dir / (part + "-images-idx3-ubyte"), images);
    testing::write_file(dir / (part + "-labels-idx1-ubyte"), labels);
  }
}

const std::vector<std::string> kQuick = {"--epochs", "1", "--batch-size", "64", "--threads", "1"};

std::vector<std::string> quick(std::vector<std::string> more) {
  more.insert(more.begin(), kQuick.begin(), kQuick.end());
  return more;
}

TEST_CASE("flags and sizes") {
  refused({"--no-such-flag"}, "no-such-flag");
  refused({"stray"}, "stray");
  refused({"--model", "resnet9"}, "resnet9");
  refused({"--dataset", "imagenet"}, "imagenet");
  refused({"--ddp-mode", "fast"}, "fast");
  refused({"--comm-hook", "topk:k=3"}, "comm hook topk: there is no option 'k'; it has ratio");
  refused({"--lr-scheduler", "poly"}, "poly");
  for (const char* flag : {"--batch-size", "--eval-batch-size", "--epochs", "--grad-accum-steps",
                           "--log-interval", "--nproc", "--lr-step-size"}) {
    refused({flag, "0"}, flag);
    refused({flag, "-3"}, flag);
    refused({flag, "many"}, flag);
    refused({flag, "99999999999999999999"}, flag);
    refused({flag}, flag);
  }
  for (const char* flag :
       {"--lr", "--momentum", "--weight-decay", "--workers", "--threads", "--warmup-steps",
        "--bucket-cap-mb", "--last-bucket-cap-mb", "--bucket-caps-mb", "--checkpoint-every",
        "--seed", "--dampening", "--beta1", "--beta2", "--eps", "--ema-decay", "--lr-power",
        "--lr-pct-start"}) {
    refused({flag, "-1"}, flag);
    refused({flag, "nan"}, flag);
  }
  for (const char* value : {"1.5", "nan", "-0.1"}) {
    refused({"--label-smoothing", value}, "--label-smoothing");
  }
  refused({"--workers", "257"}, "--workers");
  refused({"--eval-batch-size", "1000000000000"}, "1000000000000");
  for (const char* flag : {"--output-dir", "--resume", "--data-dir", "--bucket-plan"})
    refused({flag, ""}, flag);
  refused({"--nesterov", "--momentum", "0"}, "--momentum");
  refused({"--optimizer", "adagrad"}, "adagrad");
  refused({"--optimizer", "adam", "--momentum", "0.9"}, "--beta1");
  refused({"--optimizer", "adam", "--beta2", "1"}, "--beta2");
  refused({"--checkpoint-every", "5"}, "--output-dir");
  refused({"--resume", "auto"}, "--output-dir");
  refused({"--nproc", "2", "--ddp-mode", "local", "--output-dir", "/tmp/x", "--resume", "auto"},
          "a model of its own");
  refused({"--batch-size", "100000"}, "100000");
  refused({"--batch-size", "1000", "--nproc", "2"}, "2000");
  refused({"--config", "/no/such/file.toml"}, "file.toml");
  const testing::TempDir dir;
  testing::write_file(dir / "run.toml", "no-such-option = 1\n");
  refused({"--config", dir / "run.toml"}, "run.toml: INI was not able to parse no-such-option");
  testing::write_file(dir / "run.toml", "\x1b[2J\x1b]0;title\a\n");
  refused({"--config", dir / "run.toml"}, "run.toml");
}

TEST_CASE("bucket plans") {
  const testing::TempDir dir;
  const auto with = [&](const std::string& text, const std::string& ranks) {
    testing::write_file(dir / "plan.json", text);
    return quick({"--bucket-plan", dir / "plan.json", "--nproc", ranks});
  };
  for (const std::string ranks : {"1", "2"}) {
    refused(with("", ranks), "plan.json: bucket plan: wanted JSON");
    refused(with(R"({"format": 2, "buckets": []})", ranks), "wanted format 1, got 2");
    refused(with(R"({"format": 1, "buckets": []})", ranks), "it lacks conv1.weight");
    refused(with(R"({"format": 1, "buckets": [{"params": ["conv9"]}]})", ranks), "\"conv9\"");
  }
  refused({"--bucket-plan", dir / "none.json"}, "none.json");
  refused({"--bucket-plan", dir.path().string()}, "");
  refused({"--bucket-plan", dir / "plan.json", "--bucket-cap-mb", "1"}, "--bucket-cap-mb");
  refused({"--bucket-plan", dir / "plan.json", "--ddp-mode", "naive"}, "naive");

  // The plan of a run is one that --bucket-plan takes, and a resumed run wants the same again.
  const auto first = run_trainer(quick({"--output-dir", dir / "run", "--bucket-cap-mb", "0"}));
  REQUIRE_MESSAGE(first->exit_code() == 0, first->err());
  const std::string plan = testing::read_text(dir / "run/bucket_plan.json");
  std::vector<std::string> arguments = with(plan, "1");
  arguments.insert(arguments.end(), {"--output-dir", dir / "again", "--resume", "auto"});
  const auto again = run_trainer(arguments);
  REQUIRE_MESSAGE(again->exit_code() == 0, again->err());
  CHECK(testing::read_text(dir / "again/bucket_plan.json") == plan);
  std::string other = plan;
  const size_t at = other.find("\"fc.bias\"");
  REQUIRE(at != other.npos);
  const size_t first_bucket = other.find('{', other.find("buckets"));
  const size_t second_bucket = other.find('{', first_bucket + 1);
  other.erase(first_bucket, second_bucket - first_bucket);
  other.insert(other.rfind(']'),
               ", " + plan.substr(first_bucket, plan.find('}') - first_bucket + 1));
  testing::write_file(dir / "plan.json", other);
  refused(arguments, "wanted the checkpoint's bucket plan");
}

TEST_CASE("data files: missing, cut short, too large, disagreeing") {
  const testing::TempDir dir;
  const auto arguments = [&] {
    return quick({"--dataset", "mnist", "--data-dir", dir.path().string()});
  };
  refused({"--dataset", "mnist"}, "data-dir");
  refused({"--dataset", "mnist", "--data-dir", "/no/such/dir"}, "/no/such/dir");
  write_mnist(dir, idx_images(100, 99 * 784), idx_labels(100, 100));
  refused(arguments(), "images-idx3");
  write_mnist(dir, idx_images(0xffffffff, 784), idx_labels(100, 100));
  refused(arguments(), "images-idx3");
  write_mnist(dir, idx_images(100, 100 * 784 + 1), idx_labels(100, 100));
  refused(arguments(), "images-idx3");
  write_mnist(dir, idx_images(100, 100 * 784), idx_labels(99, 99));
  refused(arguments(), "");
  write_mnist(dir, "", "");
  refused(arguments(), "");
  // What is wrong with the test set alone is told once as well, before there are ranks.
  const auto two = [&] {
    std::vector<std::string> all = arguments();
    all.insert(all.end(), {"--nproc", "2"});
    return all;
  };
  write_mnist(dir, idx_images(128, 128 * 784), idx_labels(128, 128));
  std::filesystem::remove(dir / "t10k-labels-idx1-ubyte");
  refused(two(), "t10k-labels");
  testing::write_file(dir / "t10k-images-idx3-ubyte", big_endian(0x803) + big_endian(4) +
                                                          big_endian(14) + big_endian(14) +
                                                          std::string(4 * 14 * 14, '\1'));
  testing::write_file(dir / "t10k-labels-idx1-ubyte", idx_labels(4, 4));
  refused(two(), "14 x 14");
  write_mnist(dir, idx_images(100, 100 * 784), idx_labels(100, 100));
  const auto run = run_trainer(arguments());  // the files themselves are right
  CHECK_MESSAGE(run->exit_code() == 0, run->err());
}

TEST_CASE("output directories") {
  const testing::TempDir dir;
  testing::write_file(dir / "file", "x");
  refused(quick({"--output-dir", dir.path().string()}), "not empty");
  refused(quick({"--output-dir", dir.path().string(), "--nproc", "2"}), "not empty");
  refused(quick({"--output-dir", dir / "file"}), "wanted a directory");
  refused(quick({"--output-dir", dir / "file/run"}), "");
  refused(quick({"--output-dir", "/proc/self/run"}), "/proc/self/run");
  CHECK(testing::read_text(dir / "file") == "x");
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("a full disk ends the run, and what was there stays whole") {
#ifdef __SANITIZE_THREAD__
  std::puts("SKIPPED: ThreadSanitizer's own shadow memory is a file that the limit cuts short");
  return;
#endif
  const testing::TempDir dir;
  const auto first = run_trainer(quick({"--output-dir", dir / "run"}));
  REQUIRE_MESSAGE(first->exit_code() == 0, first->err());
  const std::string before = testing::read_text(dir / "run/last.safetensors");
  // No file may grow past 100 kB: smaller than a checkpoint, larger than the other files.
  const ProcessOptions full{.file_size_limit = 100'000};
  const std::vector<std::string> more = {"--epochs",  "2",   "--batch-size", "64",
                                         "--threads", "1",   "--output-dir", dir / "run",
                                         "--resume",  "auto"};
  refused(more, ".safetensors: cannot write", full);
  CHECK(testing::read_text(dir / "run/last.safetensors") == before);
  CHECK(!std::filesystem::exists(dir / "run/best.safetensors.tmp"));

  std::vector<std::string> two = quick({"--nproc", "2", "--output-dir", dir / "two"});
  const auto run = run_trainer(two, full);
  CHECK(run->exit_code() == 1);
  CHECK_MESSAGE(run->err().find(".safetensors: cannot write") != std::string::npos, run->err());
  CHECK(!std::filesystem::exists(dir / "two/last.safetensors"));
}

TEST_CASE("checkpoints that do not fit") {
  const testing::TempDir dir;
  const auto first = run_trainer(quick({"--output-dir", dir / "run"}));
  REQUIRE_MESSAGE(first->exit_code() == 0, first->err());
  const std::vector<std::string> resume = {"--output-dir", dir / "run", "--resume", "auto"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), resume.begin(), resume.end());
    return quick(std::move(more));
  };
  refused(with({"--model", "resnet20"}), "--model resnet8");
  refused(with({"--seed", "9"}), "--seed 1");
  refused(with({"--first-bucket-cap-mb", "0.01"}), "wanted --first-bucket-cap-mb 1");
  refused(with({"--ddp-mode", "naive"}), "wanted --ddp-mode bucketed or overlapped");
  refused(with({"--bucket-plan", dir / "run/bucket_plan.json"}), "wanted --bucket-plan none");
  refused({"--threads", "1", "--batch-size", "32", "--output-dir", dir / "run", "--resume", "auto"},
          "--batch-size 64");
  refused(quick({"--resume", dir / "none.safetensors"}), "none.safetensors");
  // It lies between two epochs, where other ranks may go on; within one it is refused, unless a
  // step takes as many samples.
  const auto stopped = run_trainer(quick({"--output-dir", dir / "stopped"}),
                                   {.env = {{"LOCKSTEP_FAILPOINT", "trainer.forward@3:term"}}});
  REQUIRE(stopped->exit_code() == 128 + 15);
  refused(quick({"--output-dir", dir / "stopped", "--resume", "auto", "--nproc", "2"}),
          "wanted a global batch of 64 = 1 rank x 64 as in the checkpoint, which lies within an "
          "epoch, got 128 = 2 ranks x 64; give --batch-size 32 or 1 rank, or go on from");
  // Sparse: it would not fit into memory, and need not, as its header says what it is.
  testing::write_file(dir / "large", "");
  std::filesystem::resize_file(dir / "large", uintmax_t{1} << 40);
  refused(quick({"--resume", dir / "large"}), "large: the header does not begin");
  std::filesystem::resize_file(dir / "run/last.safetensors", 5000);
  refused(with({}), "last.safetensors");
  testing::write_file(dir / "run/last.safetensors", "");
  refused(with({}), "last.safetensors");
}

TEST_CASE("a job that is refused leaves the logs of the running one alone") {
  const testing::TempDir dir;
  const auto first = start_trainer(
      {"--threads", "1", "--nproc", "2", "--epochs", "100000", "--output-dir", dir / "run"});
  for (int i = 0; i < 2000 && !std::filesystem::exists(dir / "run/last.safetensors"); ++i) {
    REQUIRE_MESSAGE(!first->ends_within(std::chrono::milliseconds(20)), first->err());
  }
  testing::write_file(dir / "run/rank1.log", "what rank 1 said\n");
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--overwrite"}, {"--resume", "auto"}}) {
    std::vector<std::string> arguments = {"--nproc", "2", "--output-dir", dir / "run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    refused(arguments, "another run");
  }
  CHECK(testing::read_text(dir / "run/rank1.log") == "what rank 1 said\n");
}

TEST_CASE("without standard streams nothing meant for them lands in the files") {
  const testing::TempDir dir;
  const std::string program = testing::program_path("examples/train_resnet/train_resnet");
  for (const char* ranks : {"1", "2"}) {
    Process run({"sh", "-c",
                 "exec " + program + " --epochs 2 --batch-size 64 --threads 1 --nproc " + ranks +
                     " --output-dir " + (dir / ranks) + " <&- >&- 2>&-"});
    REQUIRE(run.ends_within(testing::kDeadline));
    CHECK(run.exit_code() == 0);
    const std::string metrics = testing::read_text(dir / (std::string(ranks) + "/metrics.jsonl"));
    CHECK_MESSAGE(metrics.starts_with("{\"kind\""), metrics);
    CHECK_MESSAGE(metrics.find("ETA") == std::string::npos, metrics);
  }
}

TEST_CASE("a wrong world") {
  refused({}, "RANK", {.env = {{"WORLD_SIZE", "2"}}});
  refused({}, "RANK",
          {.env = {{"RANK", "2"},
                   {"WORLD_SIZE", "2"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", "29871"}}});
  refused({}, "RANK",
          {.env = {{"RANK", "one"},
                   {"WORLD_SIZE", "2"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", "29871"}}});
  refused({}, "MASTER_PORT",
          {.env = {{"RANK", "0"},
                   {"WORLD_SIZE", "2"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", "99999"}}});
}

/// A loopback socket on a port that was free.
struct Listener {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  std::string port;

  Listener() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(::listen(fd, 1) == 0);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
    port = std::to_string(ntohs(address.sin_port));
  }
  ~Listener() { ::close(fd); }
};

ProcessOptions rank_of_two(const char* rank, const std::string& port) {
  return {.env = {{"RANK", rank},
                  {"WORLD_SIZE", "2"},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", port},
                  {"LOCKSTEP_TOKEN", "0123456789abcdef0123456789abcdef"}}};
}

TEST_CASE("ranks with different flags") {
  const auto differ = [](const std::string& flag, const std::string& mine, const std::string& odd) {
    const std::string port = Listener().port;
    const std::string message = "ranks were started with different flags: " + flag + " " + mine +
                                " on rank 0 and " + flag + " " + odd + " on rank 1";
    const auto zero = start_trainer(kQuick, rank_of_two("0", port));
    refused({"--epochs", "1", "--batch-size", "64", "--threads", "2", flag, odd}, message,
            rank_of_two("1", port));
    REQUIRE(zero->ends_within(testing::kDeadline));
    CHECK(zero->exit_code() == 2);
    CHECK(zero->err().find(message) != std::string::npos);
  };
  differ("--momentum", "0.9", "0.5");  // the replicas would drift apart
  differ("--seed", "1", "2");          // some samples would come twice
  differ("--round-robin", "1", "2");
}

TEST_CASE("--nproc under another launcher") {
  ProcessOptions alone = rank_of_two("0", Listener().port);
  alone.env[1].second = "1";
  refused({"--nproc", "4"}, "--nproc 4: another launcher has started 1", alone);
}

TEST_CASE("a port that is taken") {
  const Listener listener;
  refused({}, listener.port, rank_of_two("0", listener.port));
}

TEST_CASE("a rank whose peer is killed says so and returns 1") {
  const std::string port = Listener().port;
  const std::vector<std::string> arguments = {"--epochs", "100000",         "--threads",
                                              "1",        "--log-interval", "1"};
  const auto zero = start_trainer(arguments, rank_of_two("0", port));
  const auto one = start_trainer(arguments, rank_of_two("1", port));
  for (int i = 0; i < 2000 && zero->out().find("step 3/") == std::string::npos; ++i) {
    REQUIRE_MESSAGE(!zero->ends_within(std::chrono::milliseconds(20)), zero->err());
  }
  ::kill(one->pid(), SIGKILL);
  REQUIRE(zero->ends_within(std::chrono::milliseconds(60'000)));
  CHECK(zero->exit_code() == 1);
  const std::string err = zero->err();
  CHECK_MESSAGE(err.starts_with("train_resnet: "), err);
  CHECK_MESSAGE(std::count(err.begin(), err.end(), '\n') == 1, err);
}

TEST_CASE("two jobs at once: side by side, but not in one directory") {
  const testing::TempDir dir;
  const auto job = [&](const std::string& name) {
    return start_trainer(
        {"--threads", "1", "--nproc", "2", "--epochs", "3", "--output-dir", dir / name});
  };
  const auto a = job("a"), b = job("b");
  REQUIRE(a->ends_within(testing::kDeadline));
  REQUIRE(b->ends_within(testing::kDeadline));
  CHECK_MESSAGE(a->exit_code() == 0, a->err());
  CHECK_MESSAGE(b->exit_code() == 0, b->err());
  const auto c = job("same"), d = job("same");
  REQUIRE(c->ends_within(testing::kDeadline));
  REQUIRE(d->ends_within(testing::kDeadline));
  CHECK_MESSAGE((c->exit_code() == 0) != (d->exit_code() == 0), c->err() << d->err());
  CHECK(std::max(c->exit_code(), d->exit_code()) <= 2);
}

}  // namespace
}  // namespace lockstep
