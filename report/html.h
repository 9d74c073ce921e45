// Small pieces that the report's HTML is made of. Text from files goes through `escape`
// (svg_chart.h).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::report {

/// `page` with each {{name}} replaced by its value, which is not looked into. Throws ArgumentError
/// for a name that has no value.
std::string fill(std::string_view page,
                 const std::vector<std::pair<std::string_view, std::string>>& values);

/// "<p>text</p>", the text escaped.
std::string paragraph(const std::string& text, const char* type = "");

/// A table: one header row, cells that are HTML already. Columns of numbers are told by their
/// header's leading '#', which is not shown.
std::string table(const std::string& caption, const std::vector<std::string>& header,
                  const std::vector<std::vector<std::string>>& rows);

}  // namespace lockstep::report
