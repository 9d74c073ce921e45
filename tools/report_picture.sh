#!/usr/bin/env bash
# Makes docs/report.png: the upper part of the report of a short run over an emulated link, as Chromium shows it.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v chromium >/dev/null || { echo "report_picture: install chromium" >&2; exit 1; }
bazel build --config=opt //examples/train_resnet //tools:lockstep
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bazel-bin/examples/train_resnet/train_resnet --nproc 2 --model resnet18 --epochs 2 --emulated-link 1gbit \
  --output-dir "$work/resnet18"
bazel-bin/tools/lockstep report "$work/resnet18"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/browser" \
  --blink-settings=preferredColorScheme=1 --window-size=1100,1330 --screenshot=docs/report.png \
  "file://$work/resnet18/report.html"
