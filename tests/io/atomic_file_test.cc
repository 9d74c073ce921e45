#include "lockstep/io/atomic_file.h"

#include "lockstep/base/error.h"
#include "lockstep/base/failpoint.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

using namespace lockstep;
using lockstep::testing::read_text;
using lockstep::testing::TempDir;

namespace {

// Runs `work` in a child and returns its wait status; an exception makes the exit code 3.
int in_child(const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      work();
    } catch (...) {
      _exit(3);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const IoError& error) {
    return error.what();
  }
  return "was accepted";
}

void check_contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
}

// Two writes, so that the failpoint between them leaves half a file.
void write_halves(const std::string& path, const std::string& contents) {
  AtomicFile file(path);
  const size_t half = contents.size() / 2;
  file.write(contents.data(), half);
  file.write(contents.data() + half, contents.size() - half);
  file.commit();
}

}  // namespace

TEST_CASE("a committed file has the contents, an uncommitted one is not there") {
  TempDir dir;
  write_halves(dir / "a", "first version");
  CHECK(read_text(dir / "a") == "first version");
  {
    AtomicFile file(dir / "a");
    file.write("second", 6);
    CHECK(read_text(dir / "a") == "first version");
  }
  CHECK(read_text(dir / "a") == "first version");
  CHECK(!std::filesystem::exists(dir / "a.tmp"));
  write_file_atomically(dir / "a", "2nd");
  CHECK(read_text(dir / "a") == "2nd");
  AtomicFile done(dir / "b");
  done.commit();
  CHECK_THROWS_AS(done.write("x", 1), ArgumentError);
  CHECK_THROWS_AS(done.commit(), ArgumentError);
}

TEST_CASE(
    "killed at any failpoint, the old or the whole new file is there, and the next write "
    "succeeds") {
  struct Kill {
    const char* at;
    const char* left;
  };
  for (const auto& [at, left] : std::vector<Kill>{
           {"atomic_file.after_write", "old"},
           {"atomic_file.after_write@2:kill", "old"},
           {"atomic_file.before_fsync:kill", "old"},
           {"atomic_file.before_rename", "old"},
           {"atomic_file.after_rename", "the new contents"},
       }) {
    CAPTURE(at);
    TempDir dir;
    write_file_atomically(dir / "a", "old");
    const int status = in_child([&, point = at] {
      set_failpoint(point);
      write_halves(dir / "a", "the new contents");
    });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
    CHECK(read_text(dir / "a") == left);
    write_halves(dir / "a", "and now");
    CHECK(read_text(dir / "a") == "and now");
    CHECK(!std::filesystem::exists(dir / "a.tmp"));
  }
}

TEST_CASE("a failpoint counts, and one of another name does nothing") {
  TempDir dir;
  const auto write_three = [&](const char* point) {
    return in_child([&] {
      set_failpoint(point);
      for (const char* name : {"1", "2", "3"}) write_file_atomically(dir / name, name);
    });
  };
  CHECK(WIFSIGNALED(write_three("atomic_file.before_rename@3")));
  CHECK(read_text(dir / "2") == "2");
  CHECK(!std::filesystem::exists(dir / "3"));
  CHECK(write_three("atomic_file.before_rename@4") == 0);
  CHECK(write_three("something.else") == 0);
  CHECK(write_three("") == 0);
  CHECK_THROWS_AS(set_failpoint("a@0"), ArgumentError);
  CHECK_THROWS_AS(set_failpoint("a@x"), ArgumentError);
  CHECK_THROWS_AS(set_failpoint("a:explode"), ArgumentError);
}

TEST_CASE("the environment sets a failpoint") {
  TempDir dir;
  // This program again, with the first test case only: it writes through AtomicFile.
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const int status = in_child([&] {
    setenv("LOCKSTEP_FAILPOINT", "atomic_file.before_fsync", 1);
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(4);
    execl(self.c_str(), self.c_str(), "--test-case=a committed file*", "--no-breaks", nullptr);
  });
  // doctest catches deadly signals, but not this one.
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
}

TEST_CASE("a second writer of the same file is refused, whichever process it is in") {
  TempDir dir;
  AtomicFile first(dir / "a");
  first.write("mine", 4);
  check_contains(refusal([&] { AtomicFile second(dir / "a"); }), "another writer");
  CHECK(in_child([&] { AtomicFile second(dir / "a"); }) == 3 << 8);
  AtomicFile other(dir / "b");
  first.commit();
  CHECK(read_text(dir / "a") == "mine");
  AtomicFile next(dir / "a");
}

TEST_CASE("processes that take turns at one file never lose a commit") {
  TempDir dir;
  std::vector<pid_t> children;
  for (int writer = 0; writer < 4; ++writer) {
    const pid_t child = fork();
    if (child == 0) {
      const std::string contents(1000, static_cast<char>('a' + writer));
      for (int i = 0; i < 300; ++i) {
        try {
          write_halves(dir / "a", contents);
          const std::string got = read_text(dir / "a");
          if (got.size() != 1000 || got.find_first_not_of(got[0]) != got.npos) _exit(1);
        } catch (const IoError& error) {
          if (std::string(error.what()).find("another writer") == std::string::npos) _exit(2);
        }
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(!std::filesystem::exists(dir / "a.tmp"));
}

TEST_CASE("a full disk is an IoError that says so; the old file stays and the temporary goes") {
  TempDir dir;
  if (mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
    std::puts("SKIPPED: a small tmpfs cannot be mounted here (root is needed)");
    return;
  }
  write_file_atomically(dir / "a", "old");
  const std::string message =
      refusal([&] { write_file_atomically(dir / "a", std::string(1 << 20, 'x')); });
  check_contains(message, "No space left on device");
  check_contains(message, "the disk is full");
  check_contains(message, "/a:");
  CHECK(read_text(dir / "a") == "old");
  CHECK(!std::filesystem::exists(dir / "a.tmp"));
  write_file_atomically(dir / "a", "new");
  CHECK(read_text(dir / "a") == "new");
  CHECK(umount(dir.path().c_str()) == 0);
}

TEST_CASE("a file beyond the size limit is an IoError, and the old file stays") {
  // What needs no root: the kernel's limit on a file's size, with its signal ignored.
  TempDir dir;
  write_file_atomically(dir / "a", "old");
  const int status = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message =
        refusal([&] { write_file_atomically(dir / "a", std::string(1000, 'x')); });
    if (message.find("cannot write 900 more bytes after 100") == std::string::npos) _exit(1);
  });
  CHECK(status == 0);
  CHECK(read_text(dir / "a") == "old");
  CHECK(!std::filesystem::exists(dir / "a.tmp"));
}

TEST_CASE(
    "directories that are missing, not directories, or not writable are refused with a remedy") {
  TempDir dir;
  check_contains(refusal([&] { AtomicFile file(dir / "no/such/file"); }),
                 "does not exist: create it");
  write_file_atomically(dir / "file", "old");
  check_contains(refusal([&] { AtomicFile file(dir / "file/under"); }), "does not exist");
  // Renaming over a directory fails at the end; the temporary must not stay.
  {
    AtomicFile file(dir / "d");
    std::filesystem::create_directory(dir.path() / "d");
    check_contains(refusal([&] { file.commit(); }), "cannot rename");
  }
  CHECK(!std::filesystem::exists(dir / "d.tmp"));

  const int status = in_child([&] {
    chmod(dir.path().c_str(), 0555);
    // Root may write anywhere, by its capabilities; without them it is the directory's owner.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {};
    if (syscall(SYS_capset, &header, none) != 0) _exit(2);
    const std::string message = refusal([&] { write_file_atomically(dir / "file", "new"); });
    if (message.find("cannot be written to: change its permissions") == std::string::npos) _exit(1);
  });
  chmod(dir.path().c_str(), 0755);
  CHECK(status == 0);
  CHECK(read_text(dir / "file") == "old");
}

TEST_CASE("what is no regular file is refused and stays as it is; a link to a file is replaced") {
  const TempDir dir;
  std::filesystem::create_directory(dir.path() / "folder");
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0666) == 0);
  // A device of the test's own would want root; a link to one says as much.
  std::filesystem::create_symlink("/dev/null", dir / "device");
  std::filesystem::create_symlink("folder", dir / "link");
  std::filesystem::create_symlink("/proc/self/exe", dir / "process");  // a file, as /dev/stdout
  for (const char* name : {"folder", "pipe", "device", "link", "process"}) {
    CAPTURE(name);
    const auto before = std::filesystem::symlink_status(dir / name).type();
    check_contains(refusal([&] { write_file_atomically(dir / name, "x"); }),
                   "wanted a new name or a regular file to replace");
    CHECK(std::filesystem::symlink_status(dir / name).type() == before);
    CHECK(!std::filesystem::exists(dir / (std::string(name) + ".tmp")));
  }
  write_file_atomically(dir / "file", "old");
  for (const char* target : {"file", "nowhere"}) {
    std::filesystem::remove(dir / "to");
    std::filesystem::create_symlink(target, dir / "to");
    write_file_atomically(dir / "to", "new");
    CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(dir / "to")));
  }
  CHECK(read_text(dir / "file") == "old");
}

TEST_CASE("a symbolic link in the temporary's place is not followed") {
  TempDir dir;
  write_file_atomically(dir / "victim", "precious");
  std::filesystem::create_symlink(dir / "victim", dir / "a.tmp");
  CHECK_THROWS_AS(write_file_atomically(dir / "a", "x"), IoError);
  CHECK(read_text(dir / "victim") == "precious");
}
