#!/usr/bin/env bash
# Sets up, builds, and trains ResNet-18 on real images of digits with two processes, in about half a minute. Arguments are
# handed on to the trainer: tools/demo.sh --seed 3
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
echo "demo: building (the first time takes a few minutes)"
bazel build --config=opt --ui_event_filters=-info --show_result=0 //examples/train_resnet
# Large enough for communication to matter: 45 MB of gradients in each step.
exec bazel-bin/examples/train_resnet/train_resnet --nproc 2 --model resnet18 --bucket-cap-mb 5 --lr 0.03 --epochs 15 \
  --log-interval 110 --output-dir runs/demo --overwrite "$@"
