#!/usr/bin/env bash
# A program in a Bazel workspace of its own takes this one in as a repository, is built in a scratch folder, trains with two
# processes, and goes on alone when one is lost. Builds the library once more, so tools/test_full.sh runs it and tools/test.sh
# does not. Arguments are handed on to Bazel.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
bazel=(bazel "--output_base=$scratch/base" --host_jvm_args=-Xmx1000m)
clean_up() {
  (cd "$scratch/application" && "${bazel[@]}" shutdown) >/dev/null 2>&1 || true
  chmod -R u+w "$scratch"
  rm -rf "$scratch"
}
trap clean_up EXIT
mkdir "$scratch/application"
cp tests/consumers/bazel/{.bazelrc,WORKSPACE,parity.cc} "$scratch/application"
cp tests/consumers/bazel/application.BUILD "$scratch/application/BUILD.bazel"
ln -s "$PWD" "$scratch/application/lockstep"
# The disk cache of this workspace, if it has one.
if [ -f user.bazelrc ]; then grep -E '^build' user.bazelrc >>"$scratch/application/.bazelrc" || true; fi
cd "$scratch/application"
# Quick to compile; what the program does takes no time.
"${bazel[@]}" build --noshow_progress --nosandbox_debug -c fastbuild --copt=-O0 "$@" //:parity
export OMP_NUM_THREADS=1
bazel-bin/parity >out || { cat out; echo "FAILED: without a loss"; exit 1; }
! grep -q lost out
bazel-bin/parity 100 >out || { cat out; echo "FAILED: with a loss"; exit 1; }
cat out
grep -q 'rank 0: step 100: .*a peer was lost' out
grep -q "the child's status 768" out  # _exit(3)
echo "PASSED: a Bazel workspace of its own"
