#include "lockstep/distributed/comm/heartbeat.h"

#include "lockstep/base/str.h"

#include <algorithm>
#include <charconv>

namespace lockstep::comm {
namespace {

std::string flat(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool to_number(std::string_view text, int64_t& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

}  // namespace

std::string to_text(const Heartbeat& beat) {
  std::string text = std::to_string(beat.count);
  for (const GroupActivity& g : beat.groups) {
    text += str("\n", static_cast<char>(g.where), "\t", g.done, "\t", g.ms, "\t", flat(g.group),
                "\t", flat(g.what));
  }
  return text;
}

std::optional<Heartbeat> parse_heartbeat(std::string_view text) {
  const auto lines = split(text, '\n');
  Heartbeat beat;
  if (!to_number(lines[0], beat.count)) return std::nullopt;
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto fields = split(lines[i], '\t');
    GroupActivity g;
    if (fields.size() != 5 || !to_number(fields[1], g.done) || !to_number(fields[2], g.ms) ||
        (fields[0] != "o" && fields[0] != "c" && fields[0] != "l")) {
      return std::nullopt;
    }
    g.where = static_cast<GroupActivity::Where>(fields[0][0]);
    g.group = fields[3];
    g.what = fields[4];
    beat.groups.push_back(std::move(g));
  }
  return beat;
}

std::string to_text(const LastWords& words) {
  std::string text = str(words.rank, "\t", words.failed ? "failed" : "done", "\t",
                         flat(words.group), "\t", flat(words.why));
  for (const auto& [group, count] : words.done) text += str("\n", count, "\t", flat(group));
  return text;
}

std::optional<LastWords> parse_last_words(std::string_view text) {
  const auto lines = split(text, '\n');
  const auto head = split(lines[0], '\t');
  LastWords words;
  int64_t rank = 0;
  if (head.size() != 4 || !to_number(head[0], rank) || rank < 0 || rank > INT32_MAX ||
      (head[1] != "failed" && head[1] != "done")) {
    return std::nullopt;
  }
  words.rank = static_cast<int>(rank);
  words.failed = head[1] == "failed";
  words.group = head[2];
  words.why = head[3];
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto fields = split(lines[i], '\t');
    int64_t count = 0;
    if (fields.size() != 2 || !to_number(fields[0], count)) return std::nullopt;
    words.done.emplace_back(fields[1], count);
  }
  return words;
}

}  // namespace lockstep::comm
