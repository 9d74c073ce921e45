#include "lockstep/report/html.h"

#include "lockstep/base/error.h"
#include "lockstep/report/svg_chart.h"

#include <algorithm>

namespace lockstep::report {

std::string fill(std::string_view page,
                 const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string text;
  for (;;) {
    const size_t begin = page.find("{{"), end = page.find("}}", begin);
    if (begin == page.npos || end == page.npos) return text += page;
    const std::string_view name = page.substr(begin + 2, end - begin - 2);
    const auto found = std::find_if(values.begin(), values.end(),
                                    [&](const auto& value) { return value.first == name; });
    check(found != values.end(), "report: the page asks for ", name, ", which nobody gives");
    text += page.substr(0, begin);
    text += found->second;
    page.remove_prefix(end + 2);
  }
}

std::string paragraph(const std::string& text, const char* type) {
  const std::string attribute = *type == '\0' ? "" : str(" class=\"", type, "\"");
  return str("<p", attribute, ">", escape(text), "</p>\n");
}

std::string table(const std::string& caption, const std::vector<std::string>& header,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string html =
      str("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"", escape(caption),
          "\">\n<table>\n<caption>", escape(caption), "</caption>\n<thead><tr>");
  std::vector<const char*> types;
  for (const std::string& name : header) {
    const bool number = name.starts_with('#');
    types.push_back(number ? " class=\"number\"" : "");
    html +=
        str("<th scope=\"col\"", types.back(), ">", escape(name.substr(number ? 1 : 0)), "</th>");
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      html += i == 0 ? str("<th scope=\"row\">", row[i], "</th>")
                     : str("<td", types[i], ">", row[i], "</td>");
    }
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n</div>\n";
}

}  // namespace lockstep::report
