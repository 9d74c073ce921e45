#!/bin/bash
# What only a machine with an NVIDIA GPU can show: the tests on the GPU, NCCL with several ranks, training, and the speed
# beside PyTorch. Prints a table, and returns 1 if a line of it failed.
#
#   tools/gpu_check.sh               builds with --config=cuda and checks, on one machine
#   tools/gpu_check.sh --pack FILE   builds, and packs all that --run needs into FILE (a .tar.xz of at most 64 MiB)
#   tools/gpu_check.sh --run FILE    checks with what was packed, on a machine without Bazel
#
# PyTorch, if `python3` has it, is measured beside; LOCKSTEP_GPU_OUT=FOLDER keeps what every check printed.
set -euo pipefail

here=$(dirname "$(dirname "$(realpath "$0")")")
readonly here MOST_BYTES=${LOCKSTEP_GPU_PACK_BYTES:-$((64 * 1024 * 1024))}  # another for a test
readonly TARGETS=(
  //tests/cuda:on_gpu_test
  //tests/distributed:rank_program
  //tests/distributed/nccl:nccl_process_test
  //examples/train_resnet
  //examples/train_bert
  //bench:train_step
  //tools:lockstep
)

# The files of TARGETS within bazel-bin, which the tests look for under the same names.
files() {
  local target path
  for target in "${TARGETS[@]}"; do
    path=${target#//}
    case $path in
      *:*) echo "${path/://}" ;;
      *) echo "$path/${path##*/}" ;;
    esac
  done
}

build() { bazel build --config=opt --config=cuda "${TARGETS[@]}"; }

pack() {
  local out file work
  out=$(realpath -m "$1")
  work=$(mktemp -d)
  trap "rm -rf '$work'" EXIT
  build
  for file in $(files); do
    mkdir -p "$work/$(dirname "$file")"
    strip -o "$work/$file" "bazel-bin/$file"
  done
  # The system's libraries that the programs are linked with, but the C and C++ ones and CUDA's, which are the machine's own.
  mkdir -p "$work/lib"
  for file in $(files); do ldd "bazel-bin/$file"; done |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda|nccl)\.so' | xargs cp -Lt "$work/lib"
  mkdir -p "$work/bench"
  cp bench/compare_torch_gpu.py "$work/bench/"
  tar -C "$work" -cJf "$out" .
  local bytes
  bytes=$(stat -c %s "$out")
  if ((bytes > MOST_BYTES)); then
    rm "$out"
    echo "gpu_check: $out: wanted at most $MOST_BYTES bytes, got $bytes" >&2
    exit 1
  fi
  echo "$out: $bytes bytes"
}

failed=0

# check NAME COMMAND...: a line of the table.
check() {
  local name=$1 log verdict=ok begin=$SECONDS
  shift
  log=$logs/${name//[^a-z0-9]/_}.log
  : >"$log"
  if ! "$@" >>"$log" 2>&1; then
    verdict=FAILED
    failed=1
  elif grep -q '^SKIPPED' "$log"; then
    verdict="skipped: $(grep -m1 '^SKIPPED' "$log" | cut -c10-100)"
  fi
  printf '| %-34s | %5d s | %s |\n' "$name" $((SECONDS - begin)) "$verdict"
  if [[ $verdict == FAILED ]]; then tail -15 "$log" | sed 's/^/    /'; fi
}

skip() { printf '| %-34s | %7s | skipped: %s |\n' "$1" "" "$2"; }

# The best test accuracy of a run in per mille is at least $1.
learns() {
  local least=$1
  shift
  "$@" | tee -a /dev/stderr | awk -v least="$least" \
    '/at best/ { for (i = 1; i <= NF; ++i) if ($i == "at") best = $(i - 2) } END { exit !(best * 10 >= least) }'
}

run() {
  local comparison=$1/bench/compare_torch_gpu.py
  [[ -f $comparison ]] || comparison=$here/bench/compare_torch_gpu.py
  logs=$(realpath -m "${LOCKSTEP_GPU_OUT:-$(mktemp -d)}")
  cd "$1"
  export LOCKSTEP_DEVICE=cuda
  # cuBLASLt, cuDNN and NCCL may be there as Python packages alone, as PyTorch brings them.
  local packages
  packages=$(python3 -c 'import glob, site
print(":".join(f for s in site.getsitepackages() for f in sorted(glob.glob(s + "/nvidia/*/lib"))))' 2>/dev/null) || packages=
  export LD_LIBRARY_PATH=$PWD/lib${packages:+:$packages}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  mkdir -p "$logs"
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || {
    echo "gpu_check: this machine has no NVIDIA driver" >&2
    exit 1
  }
  printf '| %-34s | %7s | %s |\n|---|---|---|\n' check time result
  check "kernels, libraries and models" tests/cuda/on_gpu_test
  check "nccl, ranks as processes" tests/distributed/nccl/nccl_process_test
  # On a machine with a GPU what is not checked is not there, and somebody has to know.
  if grep -qs '^SKIPPED' "$logs/nccl__ranks_as_processes.log"; then failed=1; fi
  check "train_resnet, digits" learns 900 examples/train_resnet/train_resnet --device cuda --dataset digits --epochs 3
  check "train_resnet, bf16" learns 900 examples/train_resnet/train_resnet --device cuda --dataset digits --epochs 3 --amp bf16
  if python3 -c 'import torch, torchvision, transformers; assert torch.cuda.is_available()' 2>/dev/null; then
    check "beside PyTorch" python3 "$comparison" --binary bench/train_step --output "$logs/beside_pytorch.md"
    [[ -f $logs/beside_pytorch.md ]] && cat "$logs/beside_pytorch.md"
  else
    skip "beside PyTorch" "python3 lacks torch, torchvision or transformers"
  fi
  # Last, as they take long.
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
      check "$tool" timeout 1200 compute-sanitizer --tool "$tool" --error-exitcode 1 tests/cuda/on_gpu_test
    done
  else
    skip "memcheck, racecheck" "compute-sanitizer is not there"
  fi
  return $failed
}

case ${1:-} in
  --pack) pack "${2:?gpu_check: --pack wants a FILE}" ;;
  --run)
    work=$(mktemp -d)
    trap "rm -rf '$work'" EXIT
    # Python unpacks it where there is no xz.
    tar -C "$work" -xJf "${2:?gpu_check: --run wants a FILE}" 2>/dev/null ||
      python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$2" "$work"
    run "$work"
    ;;
  "")
    build
    run bazel-bin
    ;;
  *)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
