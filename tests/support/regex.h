// std::regex without what g++ 12 says of its own header under sanitizers (GCC bug 105562).
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <regex>
