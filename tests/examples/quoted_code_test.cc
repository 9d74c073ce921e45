// What a page shows as code is code that is built: each block with a language is a piece of a
// source file, but for its indentation.
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

/// The blocks of a Markdown page that name a language.
std::vector<std::string> code_of(const std::string& page) {
  std::vector<std::string> blocks;
  const std::string fence = "\n```";
  for (size_t at = page.find(fence); at != page.npos; at = page.find(fence, at)) {
    const size_t begin = page.find('\n', at + 1) + 1;
    const bool has_language = begin > at + fence.size() + 1;
    const size_t end = page.find(fence, begin - 1);
    REQUIRE(end != page.npos);
    if (has_language) blocks.push_back(page.substr(begin, end + 1 - begin));
    at = end + fence.size();
  }
  return blocks;
}

TEST_CASE("code_of") {
  CHECK(code_of("a\n```cpp\nx\ny\n```\n```\nls\n```\n\n```cmake\nz\n```\n") ==
        std::vector<std::string>{"x\ny\n", "z\n"});
}

/// Whether the page has blocks, and each is in one of the sources as it stands.
void require_quotes(const std::string& page, const std::vector<std::string>& paths) {
  std::vector<std::string> sources;
  for (const std::string& path : paths) {
    sources.push_back('\n' + without_indentation(text_of(path)));
  }
  const auto blocks = code_of(text_of(page));
  CHECK(blocks.size() >= 3);
  for (const std::string& block : blocks) {
    bool found = false;
    const std::string wanted = '\n' + without_indentation(block);  // from a line's start
    for (const std::string& source : sources) found |= source.find(wanted) != source.npos;
    CHECK_MESSAGE(found, "in no source file as it stands:\n", block);
  }
}

TEST_CASE("writing_a_comm_hook.md quotes compiled code") {
  require_quotes("docs/writing_a_comm_hook.md",
                 {"distributed/reduce/comm_hook.h", "distributed/reduce/grad_bucket.h",
                  "examples/own_comm_hook/byte_hook.h", "examples/own_comm_hook/own_comm_hook.cc",
                  "tests/examples/own_comm_hook_test.cc"});
}

TEST_CASE("use_in_your_program.md quotes what the consumers' tests build") {
  const std::string consumers = "tests/consumers/";
  require_quotes("docs/use_in_your_program.md",
                 {consumers + "cmake/main.cc", consumers + "cmake/CMakeLists.txt",
                  consumers + "pkgconfig/main.cc", consumers + "bazel/WORKSPACE",
                  consumers + "bazel/application.BUILD", consumers + "bazel/.bazelrc"});
}

TEST_CASE("verify.md quotes compiled code") {
  require_quotes("docs/verify.md", {"tests/train/verify/verify_test.cc"});
}

}  // namespace
}  // namespace lockstep
