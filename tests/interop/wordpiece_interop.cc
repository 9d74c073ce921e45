// wordpiece_interop VOCAB RECORDS CASE [REPEATS]: tokenises records (4 bytes length, little-endian,
// then as many bytes of text) and writes to standard output, for each, 4 bytes count and as many
// ids of 4 bytes. CASE has letters: l lower case, a accents stripped, s special tokens are
// recognised. With REPEATS it writes nothing but the seconds of each repeat, on standard error.
#include "lockstep/data/text/word_piece.h"
#include "lockstep/io/mapped_file.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc < 4) return 2;
  try {
    const std::string mode = argv[3];
    const auto has = [&](char c) { return mode.find(c) != mode.npos; };
    const auto start = std::chrono::steady_clock::now();
    const auto since = [](auto from) {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    };
    const WordPiece tokenizer(Vocabulary::read(argv[1]),
                              {.lower_case = has('l'), .strip_accents = has('a')});
    if (argc > 4) std::fprintf(stderr, "start %f\n", since(start));
    const MappedFile file(argv[2]);
    std::vector<std::string_view> records;
    const auto* p = reinterpret_cast<const char*>(file.bytes().data());
    const char* const end = p + file.bytes().size();
    while (end - p >= 4) {
      uint32_t length;
      std::memcpy(&length, p, 4);
      records.emplace_back(p + 4, length);
      p += 4 + length;
    }
    std::vector<int32_t> ids;
    const auto encode = [&](std::string_view record) {
      ids.clear();
      has('s') ? tokenizer.encode_with_special(record, ids) : tokenizer.encode(record, ids);
    };
    if (argc > 4) {
      for (int repeat = std::atoi(argv[4]); repeat > 0; --repeat) {
        size_t count = 0;
        const auto begin = std::chrono::steady_clock::now();
        for (const std::string_view record : records) {
          encode(record);
          count += ids.size();
        }
        std::fprintf(stderr, "%f %zu\n", since(begin), count);
      }
      return 0;
    }
    for (const std::string_view record : records) {
      encode(record);
      const auto count = static_cast<uint32_t>(ids.size());
      std::fwrite(&count, 4, 1, stdout);
      std::fwrite(ids.data(), 4, ids.size(), stdout);
    }
    return std::fflush(stdout) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wordpiece_interop: %s\n", error.what());
    return 1;
  }
}
