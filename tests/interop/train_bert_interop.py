"""transformers' side of tools/interop.sh for train_bert: a pretraining of a few steps is exported; transformers loads the
folder, model and tokenizer, with no key missing or unexpected, and gives the probabilities that `train_bert predict` prints
and the vectors of `train_bert embed`, of that folder."""
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from transformers import BertForMaskedLM, BertTokenizer

TEXTS = ["The old king sees a small [MASK] near this river.", "Every child [MASK] after the wind!"]
BOUND = 1e-5  # of an element of a vector of length 1; probabilities are printed to 0.01 %


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def main(train_bert, lockstep):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        words = "the old king sees a small bird near this river and every child runs after that wind until".split()
        lines = [" ".join(words[(7 * i + k) % len(words)] for k in range(6 + i % 5)) + "." for i in range(300)]
        (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
        run(train_bert, "pretrain", "--train-file", folder / "corpus.txt", "--vocab-size", 90, "--model", "tiny", "--nproc", 2,
            "--max-seq-length", 16, "--batch-size", 8, "--max-steps", 30, "--output-dir", folder / "run")
        run(lockstep, "export", folder / "run/best.safetensors", folder / "hf")
        model, loading = BertForMaskedLM.from_pretrained(folder / "hf", output_loading_info=True)
        model.eval()
        odd = {key: value for key, value in loading.items() if value}
        tokenizer = BertTokenizer.from_pretrained(folder / "hf")
        worst = 0.0
        for text in TEXTS:
            inputs = tokenizer(text, return_tensors="pt")
            with torch.no_grad():
                logits = model(**inputs).logits
            place = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0, 0]
            chances = logits[0, place].softmax(-1)
            for line in run(train_bert, "predict", folder / "hf", text).splitlines()[1:]:
                percent, _, token = line.split()
                theirs = 100 * chances[tokenizer.convert_tokens_to_ids(token)].item()
                worst = max(worst, abs(float(percent) - theirs))
        (folder / "lines.txt").write_text("\n".join(lines[:40]) + "\n")
        run(train_bert, "embed", folder / "hf", folder / "lines.txt", "-o", folder / "vectors.npy")
        inputs = tokenizer(lines[:40], return_tensors="pt", padding=True)
        with torch.no_grad():
            hidden = model.bert(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1)
        mean = (hidden * mask).sum(1) / mask.sum(1)
        mean = (mean / mean.norm(dim=1, keepdim=True)).numpy()
        apart = numpy.abs(numpy.load(folder / "vectors.npy") - mean).max()
    print(f"train_bert: keys missing or unexpected: {odd or 'none'}; predictions differ by {worst:.4f} %, vectors by {apart:.1e}")
    if odd or worst > 0.0051 or not apart < BOUND:
        sys.exit("FAILED: train_bert and transformers differ")
    print("PASSED: train_bert's exports in transformers")


main(*sys.argv[1:])
