#!/usr/bin/env bash
# What tools/gpu_check.sh takes to a machine with a GPU fits in its 64 MiB, and a pack that does not fit is refused. Builds with
# --config=cuda. Run by tools/test_full.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tools/gpu_check.sh --pack "$work/pack.tar.xz"
if said=$(LOCKSTEP_GPU_PACK_BYTES=1000 XZ_OPT=-0 tools/gpu_check.sh --pack "$work/large.tar.xz" 2>&1); then
  echo "gpu_pack: a pack of more than the most bytes was not refused" >&2
  exit 1
fi
if ! grep -q 'wanted at most 1000 bytes, got [0-9]' <<<"$said" || [ -e "$work/large.tar.xz" ]; then
  printf 'gpu_pack: wanted the pack refused by its size and gone, got:\n%s\n' "$said" >&2
  exit 1
fi
