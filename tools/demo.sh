#!/usr/bin/env bash
# Sets up, builds, and trains a ResNet on real images of digits with two processes. Arguments are handed on to the
# trainer: tools/demo.sh --seed 3
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
echo "demo: building (the first time takes a few minutes)"
bazel build --config=opt --noshow_progress --ui_event_filters=-info //examples/train_resnet
exec bazel-bin/examples/train_resnet/train_resnet --nproc 2 --output-dir runs/demo --overwrite "$@"
