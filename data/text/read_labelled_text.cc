#include "lockstep/base/error.h"
#include "lockstep/data/text/labelled_text.h"
#include "lockstep/data/text/text_file.h"
#include "lockstep/data/text/utf8.h"
#include "lockstep/io/json_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {
namespace {

using Json = nlohmann::json;

enum Column { kTextA, kTextB, kLabel, kColumns };

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t begin = 0;;) {
    const size_t end = std::min(line.find('\t', begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    if (end == line.size()) return cells;
    begin = end + 1;
  }
}

std::optional<Column> column_named(std::string_view name) {
  if (name == "text" || name == "text_a" || name == "sentence" || name == "sentence1")
    return kTextA;
  if (name == "text_b" || name == "sentence2") return kTextB;
  if (name == "label") return kLabel;
  return std::nullopt;
}

/// Where the columns of a TSV are.
struct Layout {
  std::array<std::optional<size_t>, kColumns> at;
  size_t cells = 0;

  /// As the names say; none when they are not those of a text and a label.
  static std::optional<Layout> from_names(const std::vector<std::string_view>& names) {
    Layout layout{.at = {}, .cells = names.size()};
    for (size_t i = 0; i < names.size(); ++i) {
      const auto column = column_named(names[i]);
      if (column && !layout.at[*column]) layout.at[*column] = i;
    }
    if (!layout.at[kTextA] || !layout.at[kLabel]) return std::nullopt;
    return layout;
  }

  static std::optional<Layout> of(size_t cells) {
    if (cells == 2) return Layout{.at = {0, std::nullopt, 1}, .cells = 2};
    if (cells == 3) return Layout{.at = {0, 1, 2}, .cells = 3};
    return std::nullopt;
  }
};

class TsvReader {
 public:
  /// None: the line is the one of names.
  std::optional<LabelledLine> read(std::string_view text, const std::string& place) {
    const auto cells = cells_of(text);
    if (!layout_) {
      if ((layout_ = Layout::from_names(cells))) return std::nullopt;
      layout_ = Layout::of(cells.size());
      if (!layout_) {
        throw IoError(str("text: ", place,
                          ": wanted text and label, or two texts and label, with "
                          "tabs between them, got ",
                          cells.size(), " columns"));
      }
    }
    if (cells.size() != layout_->cells) {
      throw IoError(str("text: ", place, ": wanted ", layout_->cells,
                        " columns with tabs between them, as in the first line, got ",
                        cells.size()));
    }
    LabelledLine line;
    line.text_a = cells[*layout_->at[kTextA]];
    line.label = cells[*layout_->at[kLabel]];
    if (layout_->at[kTextB]) line.text_b = cells[*layout_->at[kTextB]];
    return line;
  }

 private:
  std::optional<Layout> layout_;
};

LabelledLine read_json(std::string_view text, const std::string& place) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    throw IoError(
        str("text: ", place, R"(: wanted {"text": ..., "label": ...}, got )", quote_text(text)));
  }
  LabelledLine line;
  for (const char* key : {"text", "text_a", "sentence", "sentence1"}) {
    if (const auto at = json.find(key); at != json.end() && at->is_string()) {
      line.text_a = at->get<std::string>();
      break;
    }
    if (std::string_view(key) == "sentence1") {
      throw IoError(str("text: ", place,
                        R"(: wanted a string "text" (or "text_a" and "text_b"), )"
                        "got none in ",
                        quote_text(text)));
    }
  }
  for (const char* key : {"text_b", "sentence2"}) {
    if (const auto at = json.find(key); at != json.end() && at->is_string()) {
      line.text_b = at->get<std::string>();
    }
  }
  const auto label = json.find("label");
  if (label == json.end() || !(label->is_string() || label->is_number_integer())) {
    throw IoError(str("text: ", place, R"(: wanted "label" as a string or an integer, got )",
                      label == json.end() ? std::string("none") : json_text(*label)));
  }
  line.label = label->is_string() ? label->get<std::string>() : label->dump();
  return line;
}

}  // namespace

std::vector<LabelledLine> read_labelled_text(const std::string& path) {
  const TextFile file(path);
  const bool json = path.ends_with(".jsonl") || path.ends_with(".json");
  std::vector<LabelledLine> lines;
  TsvReader tsv;
  file.for_each_line([&](std::string_view text, int64_t number) {
    if (is_blank(text)) return;
    const std::string place = file.place(number);
    std::optional<LabelledLine> line = json ? read_json(text, place) : tsv.read(text, place);
    if (!line) return;
    line->line = number;
    if (line->label.empty()) throw IoError(str("text: ", place, ": wanted a label, got none"));
    if (!lines.empty() && line->text_b.has_value() != lines.front().text_b.has_value()) {
      throw IoError(str("text: ", place, ": wanted ",
                        lines.front().text_b ? "two texts" : "one text", " as in line ",
                        lines.front().line, ", got ", line->text_b ? "two" : "one"));
    }
    lines.push_back(std::move(*line));
  });
  if (lines.empty()) throw IoError(str("text: ", path, ": wanted labelled texts, got none"));
  return lines;
}

}  // namespace lockstep
