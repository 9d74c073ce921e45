// The data-parallel heart can be read in an evening, and no optional feature is part of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace lockstep {
namespace {

constexpr size_t kMostLines = 1500;  // fewer than these

const std::vector<std::string> kHeart{
    "autograd/engine.h",
    "autograd/engine.cc",
    "autograd/node.h",
    "autograd/node.cc",
    "distributed/comm/process_group.h",
    "distributed/reduce/grad_bucket.h",
    "distributed/reduce/bucket_plan.h",
    "distributed/reduce/bucket_plan.cc",
    "distributed/reduce/flat_arena.h",
    "distributed/reduce/flat_arena.cc",
    "distributed/reduce/used_parameters.h",
    "distributed/reduce/used_parameters.cc",
    "distributed/reduce/reducer.h",
    "distributed/reduce/reducer.cc",
    "distributed/data_parallel.h",
    "distributed/data_parallel.cc",
};

/// What the heart's own files may include of distributed/ besides each other.
const std::vector<std::string> kBeside{
    "distributed/agreement.h",
    "distributed/buffer_broadcast.h",
    "distributed/ddp_options.h",
    "distributed/reduce/bucket_label.h",
    "distributed/reduce/bucket_times.h",
    "distributed/reduce/ddp_mode.h",
    "distributed/reduce/missing_gradient.h",
};

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), path, " is missing");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool holds(const std::vector<std::string>& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

TEST_CASE("the heart has fewer than 1,500 lines") {
  size_t total = 0;
  for (const std::string& path : kHeart) {
    const size_t lines = lines_of(path).size();
    CHECK_MESSAGE(lines > 20, path, " has but ", lines, " lines");
    std::cout << lines << " " << path << "\n";
    total += lines;
  }
  std::cout << total << " in all\n";
  CHECK(total < kMostLines);
}

TEST_CASE("the heart includes no optional feature") {
  const std::string begin = "#include \"lockstep/";
  size_t includes = 0;
  for (const std::string& path : kHeart) {
    for (const std::string& line : lines_of(path)) {
      if (line.rfind(begin, 0) != 0) continue;
      const std::string header = line.substr(begin.size(), line.rfind('"') - begin.size());
      if (header.rfind("distributed/", 0) != 0) continue;
      ++includes;
      CHECK_MESSAGE((holds(kHeart, header) || holds(kBeside, header)), path, " includes ", header);
    }
  }
  CHECK(includes > 10);
}

}  // namespace
}  // namespace lockstep
