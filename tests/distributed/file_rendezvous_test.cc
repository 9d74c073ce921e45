// Ranks that meet by a file.
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/meeting_note.h"
#include "lockstep/distributed/comm/rendezvous.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/support/eventually.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using comm::MeetingNote;

using comm::read_meeting_note;
using std::chrono::milliseconds;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string join(int rank, int size, const std::string& path, const std::string& job,
                 std::shared_ptr<Store>& store, milliseconds timeout) {
  RankInfo info{.rank = rank, .world_size = size, .master_addr = "127.0.0.1"};
  try {
    store = join_store_by_file(info, path, job, timeout);
    return str(info.master_addr, info.master_port == 0 ? " without a port" : "");
  } catch (const Error& e) {
    return e.what();
  }
}

/// What each of three ranks has met or said; rank 0 comes last.
std::vector<std::string> three_ranks(const std::string& path, const std::string& job,
                                     milliseconds timeout = milliseconds(20'000)) {
  std::vector<std::string> said(3);
  std::vector<std::shared_ptr<Store>> stores(3);
  std::vector<std::thread> threads;
  for (size_t r = 3; r-- > 0;) {
    threads.emplace_back(
        [&, r] { said[r] = join(static_cast<int>(r), 3, path, job, stores[r], timeout); });
    std::this_thread::sleep_for(milliseconds(30));
  }
  for (std::thread& thread : threads) thread.join();
  while (!stores.empty()) stores.pop_back();
  return said;
}

TEST_CASE("file rendezvous: ranks meet, and the file goes") {
  const testing::TempDir dir;
  for (const char* job : {"", "slurm/c/7.0"}) {
    CHECK(three_ranks(dir / "meet", job) ==
          std::vector<std::string>{"127.0.0.1", "127.0.0.1", "127.0.0.1"});
    CHECK(std::filesystem::is_empty(dir.path()));
  }
}

TEST_CASE("file rendezvous: what an earlier job has left is passed over") {
  const testing::TempDir dir;
  const std::string path = dir / "meet";
  const std::vector<std::string> all_well(3, "127.0.0.1");
  // Nobody there any more; another program there; another store with another token; no such file.
  TcpStore later({.serve = true, .token = "later"});
  const uint16_t gone = TcpStore({.serve = true, .token = "t"}).port();
  for (const uint16_t port : {gone, later.port()}) {
    testing::write_file(path, str("lockstep rendezvous 1\n127.0.0.1\n", port, "\nold\n\n"));
    ::chmod(path.c_str(), 0600);
    CHECK(three_ranks(path, "") == all_well);
  }
  testing::write_file(path, "something else");
  ::chmod(path.c_str(), 0600);
  CHECK(three_ranks(path, "") == all_well);
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("file rendezvous: two jobs at one file") {
  const testing::TempDir dir;
  const std::string path = dir / "meet";
  std::shared_ptr<Store> store, other;
  std::string first;
  std::thread waiting([&] { first = join(0, 2, path, "a", store, milliseconds(1500)); });
  REQUIRE(testing::eventually([&] { return std::filesystem::exists(path); }));
  CHECK(contains(join(0, 2, path, "b", other, milliseconds(500)),
                 "another job is meeting at " + path + "; give each job a file of its own"));
  // A rank of another job does not join this one.
  CHECK(contains(join(1, 2, path, "b", other, milliseconds(300)), "it is of another job"));
  waiting.join();
  CHECK(contains(first, "of 2 ranks these did not come"));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("file rendezvous: a rank 0 that does not come, a folder that is not there") {
  const testing::TempDir dir;
  std::shared_ptr<Store> store;
  CHECK(contains(join(1, 2, dir / "meet", "", store, milliseconds(100)),
                 "rank 0 has not written it; is it running"));
  for (const int rank : {0, 1}) {  // at once: the time-out would be a minute
    CHECK(contains(join(rank, 2, dir / "no/folder", "", store, milliseconds(60'000)),
                   "there is no folder " + (dir / "no/")));
  }
  const uint16_t gone = TcpStore({.serve = true, .token = "t"}).port();
  const MeetingNote note(dir / "meet", {"127.0.0.1", gone, "old", ""});
  CHECK(contains(join(1, 2, dir / "meet", "", store, milliseconds(100)),
                 "unless an earlier job has left the file"));
}

TEST_CASE("meeting note: one that another job has put in its place stays") {
  const testing::TempDir dir;
  const std::string path = dir / "note";
  std::optional<MeetingNote> first, second;
  first.emplace(path, comm::MeetingPlace{"10.0.0.1", 1, "first", ""});
  second.emplace(path, comm::MeetingPlace{"10.0.0.2", 2, "second", ""});
  first.reset();
  REQUIRE(read_meeting_note(path).has_value());
  CHECK(read_meeting_note(path)->token == "second");
  second.reset();
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("meeting note: whole, for its owner only, and no more than a note") {
  const testing::TempDir dir;
  const std::string path = dir / "note";
  {
    const MeetingNote note(path, {"10.0.0.1", 1234, "secret", "job"});
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    const auto read = read_meeting_note(path);
    REQUIRE(read.has_value());
    CHECK(read->host == "10.0.0.1");
    CHECK(read->port == 1234);
    CHECK(read->token == "secret");
    CHECK(read->job == "job");
    ::chmod(path.c_str(), 0644);
    CHECK_THROWS_AS(read_meeting_note(path), IoError);
  }
  CHECK(std::filesystem::is_empty(dir.path()));
  CHECK_FALSE(read_meeting_note(path).has_value());
  for (const char* text :
       {"", "lockstep rendezvous 1\n", "lockstep rendezvous 2\nh\n1\nt\nj\n",
        "lockstep rendezvous 1\nh\n0\nt\nj\n", "lockstep rendezvous 1\nh\n70000\nt\nj\n",
        "lockstep rendezvous 1\nh\n1x\nt\nj\n", "lockstep rendezvous 1\nh\n1\nt"}) {
    CAPTURE(text);
    testing::write_file(path, text);
    ::chmod(path.c_str(), 0600);
    CHECK_FALSE(read_meeting_note(path).has_value());
  }
  std::filesystem::remove(path);
  std::filesystem::create_symlink(dir / "elsewhere", path);
  CHECK_THROWS_AS(read_meeting_note(path), IoError);
}

}  // namespace
}  // namespace lockstep
