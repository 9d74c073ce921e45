// The extensions that isa_guard knows: X(bit, name as in __builtin_cpu_supports, macro by which the
// compiler says that it may use it).
#pragma once

#define LOCKSTEP_ISA_LIST(X)          \
  X(0, "sse3", __SSE3__)              \
  X(1, "ssse3", __SSSE3__)            \
  X(2, "sse4.1", __SSE4_1__)          \
  X(3, "sse4.2", __SSE4_2__)          \
  X(4, "popcnt", __POPCNT__)          \
  X(5, "avx", __AVX__)                \
  X(6, "avx2", __AVX2__)              \
  X(7, "fma", __FMA__)                \
  X(8, "bmi", __BMI__)                \
  X(9, "bmi2", __BMI2__)              \
  X(10, "f16c", __F16C__)             \
  X(11, "lzcnt", __LZCNT__)           \
  X(12, "movbe", __MOVBE__)           \
  X(13, "avx512f", __AVX512F__)       \
  X(14, "avx512bw", __AVX512BW__)     \
  X(15, "avx512cd", __AVX512CD__)     \
  X(16, "avx512dq", __AVX512DQ__)     \
  X(17, "avx512vl", __AVX512VL__)     \
  X(18, "avx512vbmi", __AVX512VBMI__) \
  X(19, "avx512vnni", __AVX512VNNI__) \
  X(20, "avx512bf16", __AVX512BF16__)
