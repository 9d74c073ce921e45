# For the tests of this folder: unpacks the archive into a scratch folder with a space in its name; $prefix is where.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix="$scratch/an installed copy"
archive=$PWD/packaging/lockstep.tar
fail() { echo "FAILED: $1"; exit 1; }
# A test that needs a program which is not there.
need() { command -v "$1" >/dev/null || { echo "SKIPPED: $1 is not installed"; echo "PASSED: nothing"; exit 0; }; }
unpack() { tools/install.sh "$prefix" --archive="$archive" >"$scratch/said" || fail "$(cat "$scratch/said")"; }
