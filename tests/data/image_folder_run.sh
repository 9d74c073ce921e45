#!/usr/bin/env bash
# tests/data/image_folder_run.sh [DIR]: a 3-epoch run with 2 processes on 6,000 real images (Fashion-MNIST as PNG and
# JPEG files of 64 x 64), then the same from packed shards. The end tables show what waiting for data costs: data wait
# is to stay under 5 % of a step, so there is no line "input-bound". DIR is kept; without it a temporary folder is used.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -e /usr/share/datasets/fashion-mnist ] || { echo "SKIPPED: the package dataset-fashion-mnist is not installed"; exit 0; }
bazel build --config=opt --noshow_progress //tests/data:make_fashion_folder //examples/train_resnet //tools:lockstep
dir=${1:-$(mktemp -d)}
[ $# -gt 0 ] || trap 'rm -rf "$dir"' EXIT
[ -d "$dir/folder" ] || bazel-bin/tests/data/make_fashion_folder "$dir/folder" 6000 1000
echo "$(find "$dir/folder/train" -name '*.png' | wc -l) PNG and $(find "$dir/folder/train" -name '*.jpg' | wc -l) JPEG files"
train() {
  bazel-bin/examples/train_resnet/train_resnet --dataset "$1" --data-dir "$2" --image-size 64 --resize-size 64 --augment \
    --least-crop-area 0.5 --model resnet8 --epochs 3 --batch-size 32 --nproc 2 --workers 1
}
train folder "$dir/folder"
[ -d "$dir/packed" ] || bazel-bin/tools/lockstep pack "$dir/folder" "$dir/packed" --resize 64
train packed "$dir/packed"
