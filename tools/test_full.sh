#!/usr/bin/env bash
# All that tools/test.sh does, and besides: source format, clang-tidy, AddressSanitizer with UBSan, ThreadSanitizer, each
# fuzz target for a minute, and faults in the engine that tests must notice. Ends with a table.
set -uo pipefail
cd "$(dirname "$0")/.."
results=()
run() {
  local name=$1
  shift
  echo "== $name"
  if "$@"; then results+=("passed  $name"); else results+=("FAILED  $name"); fi
}
run "tests" tools/test.sh
run "format" tools/check_format.sh
run "tidy" tools/tidy.sh
run "pages" tools/check_docs.sh
if [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
  run "cuda plans" bazel test --config=opt --config=cuda //tests/cuda/plans
  run "cuda pack" tests/tools/gpu_pack.sh
else
  results+=("skipped cuda plans, cuda pack: no nvcc in ${CUDA_HOME:-/usr/local/cuda}/bin")
fi
run "bazel consumer" tests/consumers/bazel.sh
run "asan + ubsan" tools/test.sh --config=asan
run "tsan" tools/test.sh --config=tsan
for target in tests/fuzz/*_fuzz.cc; do
  name=$(basename "$target" _fuzz.cc)
  run "fuzz $name" tests/fuzz/run.sh "$name" 60
done
run "faults" tools/mutate.sh
printf '%s\n' "${results[@]}"
! printf '%s\n' "${results[@]}" | grep -q '^FAILED'
