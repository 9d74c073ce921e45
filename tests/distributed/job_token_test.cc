#include "lockstep/distributed/comm/job_token.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/distributed/environment_of.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using testing::environment_of;
using testing::Variables;

std::string message_of(const Variables& variables) {
  try {
    job_token("job", environment_of(variables));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

TEST_CASE("job token: variable, file and their faults") {
  CHECK(contains(message_of({}), "LOCKSTEP_TOKEN is not set"));
  const testing::TempDir dir;
  const std::string path = dir / "token";
  std::ofstream(path) << "from a file\nrest";
  ::chmod(path.c_str(), 0600);
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);  // nobody writes: it must not hang
  CHECK(contains(message_of({{"LOCKSTEP_TOKEN_FILE", dir / "pipe"}}), "wanted a regular file"));
  const Variables file = {{"LOCKSTEP_TOKEN_FILE", path}};
  CHECK(job_token("job", environment_of(file)) == "from a file");
  ::chmod(path.c_str(), 0640);
  CHECK(contains(message_of(file), "chmod 600"));
  ::unlink(path.c_str());
  CHECK(contains(message_of(file), "cannot open"));
  CHECK(contains(message_of({{"LOCKSTEP_TOKEN", std::string(257, 'x')}}),
                 "wanted 1 to 256 bytes, got 257"));
  CHECK(job_token("job", environment_of({{"LOCKSTEP_TOKEN", "direct"},
                                         {"LOCKSTEP_TOKEN_FILE", path}})) == "direct");
}

TEST_CASE("job token: make_job_token is new each time") {
  CHECK(make_job_token().size() == 32);
  CHECK(make_job_token() != make_job_token());
}

TEST_CASE("user secret: made once, for its owner only, whoever comes first") {
  const testing::TempDir dir;
  const Environment env = environment_of({{"HOME", dir / "home"}});
  std::vector<std::string> secrets(8);
  std::vector<std::thread> threads;
  for (std::string& secret : secrets) {
    threads.emplace_back([&] { secret = user_secret(env); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& secret : secrets) CHECK(secret == secrets[0]);
  CHECK(secrets[0].size() == 32);
  const std::string folder = dir / "home/.config/lockstep";
  CHECK(mode_of(folder) == 0700);
  CHECK(mode_of(folder + "/token") == 0600);
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);  // nothing is left

  CHECK(user_secret_path(environment_of({{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/x"}})) ==
        "/x/lockstep/token");
  ::chmod((folder + "/token").c_str(), 0644);
  CHECK(contains(message_of({{"HOME", dir / "home"}}), "chmod 600"));
  CHECK(contains(message_of({{"HOME", "/proc/nothing"}}), "set LOCKSTEP_TOKEN"));
}

TEST_CASE("job token: of a user's secret, another one for each job, and not the secret") {
  const testing::TempDir dir;
  const Environment env = environment_of({{"XDG_CONFIG_HOME", dir.path().string()}});
  const std::string token = job_token("job 1", env), secret = user_secret(env);
  CHECK(token == job_token("job 1", env));
  CHECK(token != job_token("job 2", env));
  CHECK(token.size() == 86);  // 512 bits, six in a character
  CHECK_FALSE(contains(token, secret));
  // Of another user, for the same job.
  const testing::TempDir other;
  CHECK(token != job_token("job 1", environment_of({{"XDG_CONFIG_HOME", other.path().string()}})));
}

}  // namespace
}  // namespace lockstep
