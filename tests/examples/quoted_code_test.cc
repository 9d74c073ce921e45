// What a page shows as C++ is code that is compiled: each ```cpp block is a piece of a source file,
// but for its indentation.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string without_indentation(const std::string& text) {
  std::istringstream in(text);
  std::string all;
  for (std::string line; std::getline(in, line);) {
    all += line.substr(std::min(line.find_first_not_of(' '), line.size())) + '\n';
  }
  return all;
}

/// The ```cpp blocks of a Markdown page.
std::vector<std::string> code_of(const std::string& page) {
  std::vector<std::string> blocks;
  const std::string open = "\n```cpp\n";
  for (size_t at = page.find(open); at != page.npos; at = page.find(open, at)) {
    at += open.size();
    const size_t end = page.find("\n```", at);
    REQUIRE(end != page.npos);
    blocks.push_back(page.substr(at, end + 1 - at));
    at = end;
  }
  return blocks;
}

TEST_CASE("code_of") {
  CHECK(code_of("a\n```cpp\nx\ny\n```\n```sh\nls\n```\n\n```cpp\nz\n```\n") ==
        std::vector<std::string>{"x\ny\n", "z\n"});
}

TEST_CASE("writing_a_comm_hook.md quotes compiled code") {
  std::vector<std::string> sources;
  for (const char* path :
       {"distributed/reduce/comm_hook.h", "distributed/reduce/grad_bucket.h",
        "examples/own_comm_hook/byte_hook.h", "examples/own_comm_hook/own_comm_hook.cc",
        "tests/examples/own_comm_hook_test.cc"}) {
    sources.push_back(without_indentation(text_of(path)));
  }
  const auto blocks = code_of(text_of("docs/writing_a_comm_hook.md"));
  CHECK(blocks.size() >= 3);
  for (const std::string& block : blocks) {
    bool found = false;
    const std::string wanted = '\n' + without_indentation(block);  // from a line's start
    for (const std::string& source : sources) found |= source.find(wanted) != source.npos;
    CHECK_MESSAGE(found, "in no source file as it stands:\n", block);
  }
}

}  // namespace
}  // namespace lockstep
