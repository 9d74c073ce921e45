#!/usr/bin/env bash
# torchrun.sh PYTHON TRAIN_RESNET: ranks that PyTorch's torchrun starts train to the same bits as those of --nproc.
set -euo pipefail
python=$1 train=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags=(--threads 1 --batch-size 64 --epochs 1 --seed 7)
"$train" --nproc 3 "${flags[@]}" --output-dir "$folder/nproc" > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
# By itself torchrun chooses a port; with an address and a port its own store listens there.
for way in "" "--master-addr 127.0.0.1 --master-port 29511"; do
  # shellcheck disable=SC2086
  "$python" -m torch.distributed.run --no-python $way --nproc-per-node 3 "$train" "${flags[@]}" \
    --output-dir "$folder/torchrun" --overwrite > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  cmp "$folder/nproc/last.safetensors" "$folder/torchrun/last.safetensors"
done
echo "torchrun: the bits of --nproc 3"
