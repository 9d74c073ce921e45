// The options of a communication hook as they stand on a command line: "ratio=0.01,overflow=inf".
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>

namespace lockstep {

/// A hook's factory asks for each option that the hook has; what it did not ask for is unknown.
class CommHookOptions {
 public:
  /// `hook` is for messages. `text`: "key=value,key=value" or nothing. Throws ArgumentError for
  /// what is not of that form, and for a key that comes twice.
  CommHookOptions(std::string hook, const std::string& text);

  /// Throws ArgumentError for what is no finite number.
  double number(const std::string& key, double fallback);
  /// One of `choices`, the first if not given; throws ArgumentError that lists them for others.
  std::string choice(const std::string& key, std::initializer_list<std::string> choices);

  /// Throws ArgumentError that lists the options that were asked for, if others were given.
  void require_all_used() const;

 private:
  /// Null if not given.
  const std::string* find(const std::string& key);

  std::string hook_;
  std::map<std::string, std::string> given_;
  std::set<std::string> asked_;
};

}  // namespace lockstep
