#!/usr/bin/env bash
# Installs what building and running Lockstep needs, from Debian's packages. Prints what, why and how large first; does
# nothing when all is there. --dev adds what the tests and checks need.
set -euo pipefail

packages=(
  "g++|the C++20 compiler"
  "libeigen3-dev|CPU kernels: elementwise and reductions"
  "libdnnl-dev|CPU kernels: oneDNN's matmul and convolution"
  "libgloo-dev|collectives between CPU processes"
  "libcli11-dev|command lines"
  "nlohmann-json3-dev|JSON: checkpoint headers, metrics"
  "libjpeg62-turbo-dev|image folders: JPEG"
  "libpng-dev|image folders: PNG"
  "libutf8proc-dev|text: Unicode's categories, decomposition and lower case"
  "zlib1g-dev|gzip-compressed datasets"
  "git|the commit recorded with each run"
)
dev_packages=(
  "doctest-dev|unit tests"
  "cmake|a test that builds a program against an installed copy"
  "pkgconf|the same by pkg-config"
  "clang|fuzz targets"
  "libclang-rt-dev|the fuzzer's runtime"
  "clang-format|source format"
  "clang-tidy|static checks"
  "dataset-fashion-mnist|real images for tests and examples"
  "libonnx-testdata|operator cases with inputs and outputs, 21 MB"
  "libonnx-dev|reading them"
  "libprotobuf-dev|reading them"
  "openmpi-bin|ranks started by Open MPI, 20 MB"
  "mpich|ranks started by MPICH, 50 MB"
  "slurmctld|ranks started by srun, in a Slurm of the test's own, 14 MB with the two below and munge"
  "slurmd|the same"
  "slurm-client|the same"
  "iproute2|hosts that are network namespaces"
)
# A Bazel that is there already is left alone.
command -v bazel >/dev/null || packages+=("bazel-bootstrap|the build tool, with its Java runtime")

case "${1:-}" in
  "") ;;
  --dev) packages+=("${dev_packages[@]}") ;;
  *) echo "usage: tools/setup.sh [--dev]" >&2; exit 2 ;;
esac

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# The fuzzer's runtime carries clang's version in its name.
clang_runtime() {
  local version
  version=$(clang --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -1)
  [ -n "$version" ] || version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\).*/\1/p' | head -1)
  echo "libclang-rt-${version:-14}-dev"
}

missing=()
for entry in "${packages[@]}"; do
  name=${entry%%|*}
  [ "$name" = libclang-rt-dev ] && name=$(clang_runtime)
  installed "$name" || missing+=("$name|${entry#*|}")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: everything is installed"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "setup: this script knows Debian's apt only; install these by hand:" >&2
  printf '  %s\n' "${missing[@]%%|*}" >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: run as root, or install sudo" >&2; exit 1; }
  sudo=(sudo)
fi

echo "setup: installing"
for entry in "${missing[@]}"; do printf '  %-24s %s\n' "${entry%%|*}" "${entry#*|}"; done
"${sudo[@]}" apt-get update -qq
names=("${missing[@]%%|*}")
LC_ALL=C apt-get install --assume-no --no-install-recommends "${names[@]}" 2>/dev/null |
  sed -n 's/^\(Need to get\|After this operation\)/  &/p' || true
# By env, because sudo drops the caller's variables.
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${names[@]}" >/dev/null
echo "setup: done"
