// What the compiler says of the hot kernels: nothing kept in local memory because registers ran
// out, and so few registers that enough threads run side by side to hide the latency of memory.
#include "lockstep/tests/support/process.h"

#include <doctest/doctest.h>

#include <cxxabi.h>
#include <cstdio>
#include <fstream>
#include <istream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep {
namespace {

struct Kernel {
  std::string name;
  int spilled = -1;  // bytes
  int registers = -1;
};

std::string readable(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : symbol;
}

/// What `ptxas -v` printed.
std::vector<Kernel> read_report(std::istream& report) {
  static const std::regex entry("Compiling entry function '([^']*)'");
  static const std::regex spills("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  static const std::regex registers("Used ([0-9]+) registers");
  std::vector<Kernel> kernels;
  std::smatch found;
  for (std::string line; std::getline(report, line);) {
    if (std::regex_search(line, found, entry)) kernels.push_back({.name = readable(found[1])});
    if (kernels.empty()) continue;
    if (std::regex_search(line, found, spills))
      kernels.back().spilled = std::stoi(found[1]) + std::stoi(found[2]);
    if (std::regex_search(line, found, registers)) kernels.back().registers = std::stoi(found[1]);
  }
  return kernels;
}

/// Empty, or what is wrong with them.
std::string faults(const std::vector<Kernel>& kernels, int most_registers) {
  std::string text = kernels.empty() ? "no kernel in the report\n" : "";
  for (const Kernel& kernel : kernels) {
    if (kernel.spilled == 0 && kernel.registers > 0 && kernel.registers <= most_registers) continue;
    text += kernel.name + ": " + std::to_string(kernel.spilled) + " bytes spilled, " +
            std::to_string(kernel.registers) + " registers\n";
  }
  return text;
}

TEST_CASE("a report with spills, with too many registers or without kernels is found fault with") {
  const auto faults_of = [](const std::string& report) {
    std::istringstream in(report);
    return faults(read_report(in), 64);
  };
  const auto report = [](int stores, int loads, int registers) {
    return "ptxas info    : 0 bytes gmem\n"
           "ptxas info    : Compiling entry function '_Z3addif' for 'sm_90'\n"
           "ptxas info    : Function properties for _Z3addif\n"
           "    0 bytes stack frame, " +
           std::to_string(stores) + " bytes spill stores, " + std::to_string(loads) +
           " bytes spill loads\nptxas info    : Used " + std::to_string(registers) +
           " registers, 400 bytes cmem[0]\n";
  };
  CHECK(faults_of(report(0, 0, 64)) == "");
  CHECK(faults_of(report(0, 0, 65)) == "add(int, float): 0 bytes spilled, 65 registers\n");
  CHECK(faults_of(report(8, 0, 32)) == "add(int, float): 8 bytes spilled, 32 registers\n");
  CHECK(faults_of(report(0, 4, 32)) == "add(int, float): 4 bytes spilled, 32 registers\n");
  CHECK(faults_of("ptxas info    : 0 bytes gmem\n") == "no kernel in the report\n");
}

TEST_CASE("the hot kernels spill nothing and leave registers for enough threads") {
#ifndef LOCKSTEP_CUDA
  std::puts("SKIPPED: built without CUDA");
#else
  struct Family {
    const char* name;
    int most_registers;
  };
  // A multiprocessor has 65536 registers: 64 for a thread leave room for half of its 2048 threads,
  // 80 for 768. The widest are those of f64, which nobody trains in.
  for (const Family& family :
       {Family{"activation", 64}, Family{"copy", 64}, Family{"dropout", 64},
        Family{"elementwise", 80}, Family{"unary", 80}, Family{"optimizer", 64},
        Family{"reduce", 64}, Family{"norm", 64}, Family{"group_norm", 80}, Family{"add_norm", 80},
        Family{"softmax", 64}, Family{"loss", 64}, Family{"attention", 80}, Family{"matmul", 64}}) {
    INFO(family.name);
    std::ifstream report(testing::program_path(std::string("tensor/cuda/_objs/kernels/") +
                                               family.name + ".resources"));
    REQUIRE(report.is_open());
    const auto kernels = read_report(report);
    CHECK(faults(kernels, family.most_registers) == "");
    std::printf("%s: %zu kernels\n", family.name, kernels.size());
  }
#endif
}

}  // namespace
}  // namespace lockstep
