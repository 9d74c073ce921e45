#!/bin/bash
# tests/fuzz/run.sh NAME [SECONDS] [libFuzzer options]: builds tests/fuzz/NAME_fuzz.cc with clang's fuzzer and address
# sanitizer and runs it for SECONDS (60). A target names what it needs in two kinds of comment lines:
#   // sources: base/log.cc io/idx.cc      files to compile with it
#   // flags: -lz                          flags for the linker
#   // seeds: tests/golden/images         where seeds lie, if not in tests/fuzz/seeds/NAME/
# (with an empty line before them, or clang-format joins them to the text above).
# A fault leaves its input in the output folder (printed at the end).
set -euo pipefail
cd "$(dirname "$0")/../.."
name=${1:?usage: tests/fuzz/run.sh NAME [SECONDS] [libFuzzer options]}
seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
target=tests/fuzz/${name}_fuzz.cc
[ -f "$target" ] || { echo "run.sh: no such target: $target" >&2; exit 2; }
command -v clang++ > /dev/null || { echo "SKIPPED: clang++ is not installed (tools/setup.sh --dev)"; exit 0; }
out=${FUZZ_OUT:-${TMPDIR:-/tmp}/lockstep-fuzz-$(id -u)}/$name
mkdir -p "$out/include" "$out/corpus"
ln -sfn "$PWD" "$out/include/lockstep"
sources=$(sed -n 's|^// sources:||p' "$target")
flags=$(sed -n 's|^// flags:||p' "$target")
clang++ -std=c++20 -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
  -fno-sanitize-recover=undefined -I "$out/include" "$target" $sources $flags -o "$out/fuzz"
seeds=$(sed -n 's|^// seeds:||p' "$target")
[ -n "$seeds" ] || seeds=tests/fuzz/seeds/$name
[ -d $seeds ] || seeds=
"$out/fuzz" "$out/corpus" $seeds -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
  -artifact_prefix="$out/" -print_final_stats=1 "$@"
echo "fuzz $name: clean after $seconds s"
