#include "lockstep/data/text/vocabulary.h"

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/data/text/utf8.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

namespace lockstep {
namespace {

constexpr size_t kMaxTokenBytes = 1000, kMaxTokens = size_t{1} << 24;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
constexpr std::array kSpecial = {Vocabulary::kPad, Vocabulary::kUnknown, Vocabulary::kClassify,
                                 Vocabulary::kSeparator, Vocabulary::kMask};

/// What is wrong with a token by itself, as "wanted ..., got ..."; empty: nothing.
std::string fault_of(std::string_view token) {
  if (token.empty()) return "wanted a token, got an empty line";
  if (token.size() > kMaxTokenBytes) {
    return str("wanted a token of at most ", kMaxTokenBytes, " bytes, got ", token.size());
  }
  if (const auto at = invalid_utf8_at(token)) {
    return str("wanted UTF-8, got ", quote_text(token), ", which is none from byte ", *at, " on");
  }
  if (token.find('\n') != token.npos) return "wanted a token without line feeds";
  return "";
}

}  // namespace

struct Vocabulary::Data {
  std::string text;              // all tokens, one after the other
  std::vector<uint32_t> begins;  // of each token, and the end of the last
  std::vector<bool> continues;   // begins with "##"
  std::unordered_map<std::string_view, int32_t> ids;
  std::array<int32_t, kSpecial.size()> special{};
  uint64_t hash = 0;

  std::string_view token(size_t i) const {
    return std::string_view(text).substr(begins[i], begins[i + 1] - begins[i]);
  }

  /// `tokens` are views of somebody else's memory; `where(i)` begins the message about token i.
  template <class Where>
  static std::shared_ptr<const Data> make(const std::vector<std::string_view>& tokens,
                                          const std::string& name, Where&& where) {
    if (tokens.empty())
      throw IoError(str(name, ": wanted a token in each line, got an empty file"));
    if (tokens.size() > kMaxTokens) {
      throw IoError(str(name, ": wanted at most ", kMaxTokens, " tokens, got ", tokens.size()));
    }
    auto data = std::make_shared<Data>();
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::string fault = fault_of(tokens[i]);
      if (!fault.empty()) throw IoError(str(where(i), ": ", fault));
      data->begins.push_back(static_cast<uint32_t>(data->text.size()));
      data->text += tokens[i];
      if (data->text.size() > kMaxFileBytes) {
        throw IoError(str(name, ": wanted at most ", kMaxFileBytes, " bytes of tokens"));
      }
      data->continues.push_back(tokens[i].starts_with("##"));
    }
    data->begins.push_back(static_cast<uint32_t>(data->text.size()));
    data->ids.reserve(tokens.size());
    std::string all;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto [at, added] = data->ids.emplace(data->token(i), static_cast<int32_t>(i));
      if (!added) {
        throw IoError(str(where(i), ": wanted each token once, got ", quote_text(tokens[i]),
                          " again; it has id ", at->second, " already"));
      }
      all += tokens[i];
      all += '\n';
    }
    data->hash = fnv1a(all);
    for (size_t i = 0; i < kSpecial.size(); ++i) {
      const auto at = data->ids.find(kSpecial[i]);
      if (at == data->ids.end()) {
        throw IoError(str(name, ": wanted the tokens [PAD], [UNK], [CLS], [SEP] and [MASK] among ",
                          tokens.size(), ", got no ", kSpecial[i],
                          "; is this the vocab.txt of a BERT?"));
      }
      data->special[i] = at->second;
    }
    return data;
  }
};

Vocabulary::Vocabulary(const std::vector<std::string>& tokens) {
  try {
    data_ = Data::make({tokens.begin(), tokens.end()}, "Vocabulary",
                       [](size_t i) { return str("Vocabulary: token ", i); });
  } catch (const IoError& error) {
    throw ArgumentError(error.what());
  }
}

Vocabulary Vocabulary::parse(std::string_view text, const std::string& name) {
  std::vector<std::string_view> tokens;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    tokens.push_back(line);
    if (tokens.size() > kMaxTokens) break;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return Vocabulary(Data::make(tokens, str("vocabulary: ", name),
                               [&](size_t i) { return str("vocabulary: ", name, ":", i + 1); }));
}

Vocabulary Vocabulary::read(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kMaxFileBytes);
  return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

void Vocabulary::write(const std::string& path) const {
  std::string text;
  for (int64_t i = 0; i < size(); ++i) {
    text += token(i);
    text += '\n';
  }
  write_file_atomically(path, text);
}

int64_t Vocabulary::size() const { return static_cast<int64_t>(data_->begins.size()) - 1; }

std::string_view Vocabulary::token(int64_t id) const {
  check(0 <= id && id < size(), "Vocabulary::token: wanted an id in [0, ", size(), "), got ", id);
  return data_->token(static_cast<size_t>(id));
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  const auto at = data_->ids.find(token);
  if (at == data_->ids.end()) return std::nullopt;
  return at->second;
}

int32_t Vocabulary::pad() const { return data_->special[0]; }
int32_t Vocabulary::unknown() const { return data_->special[1]; }
int32_t Vocabulary::classify() const { return data_->special[2]; }
int32_t Vocabulary::separator() const { return data_->special[3]; }
int32_t Vocabulary::mask() const { return data_->special[4]; }

bool Vocabulary::is_special(int32_t id) const {
  return std::find(data_->special.begin(), data_->special.end(), id) != data_->special.end();
}

bool Vocabulary::continues_word(int32_t id) const {
  return data_->continues[static_cast<size_t>(id)];
}

uint64_t Vocabulary::hash() const { return data_->hash; }

}  // namespace lockstep
