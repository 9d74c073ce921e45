#!/usr/bin/env python3
"""Steps of BERT's pretraining, Lockstep's beside transformers': same sizes, batch, threads and machine, in one run.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch transformers
    bazel build --config=opt --config=avx512 //bench:bert_step
    /tmp/torch/bin/python bench/compare_bert.py

The two take turns step by step, in random order. Both run forward, the two losses, backward and AdamW in f32, with dropout,
on a batch of which every seventh token is masked. transformers computes logits of all tokens; so that the comparison is of
one work, PyTorch's side applies the head to the masked tokens alone, as ours does.
"""

import argparse
import statistics
import time

from compare_torch import Lockstep, take_turns

SIZES = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512), "base": (12, 768), "large": (24, 1024)}


class Torch:
    def __init__(self, case, threads, attention):
        import torch
        from transformers import BertConfig, BertForPreTraining

        torch.set_num_threads(threads)
        torch.manual_seed(1)
        layers, hidden = SIZES[case["size"]]
        self.torch = torch
        self.model = BertForPreTraining(BertConfig(
            num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=hidden // 64, intermediate_size=4 * hidden,
            hidden_dropout_prob=case["dropout"], attention_probs_dropout_prob=case["dropout"],
            attn_implementation=attention)).train()
        tokens = case["batch"] * case["length"]
        self.ids = torch.randint(0, 30522, (case["batch"], case["length"]))
        self.positions = torch.arange(0, tokens, 7)
        self.labels = torch.randint(0, 30522, self.positions.shape)
        self.next = torch.zeros(case["batch"], dtype=torch.int64)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def step(self):
        loss = self.torch.nn.functional.cross_entropy
        self.optimizer.zero_grad()
        start = time.perf_counter()
        hidden = self.model.bert(self.ids)
        masked = hidden.last_hidden_state.flatten(0, 1)[self.positions]
        total = (loss(self.model.cls.predictions(masked), self.labels)
                 + loss(self.model.cls.seq_relationship(hidden.pooler_output), self.next))
        after_forward = time.perf_counter()
        total.backward()
        after_backward = time.perf_counter()
        self.optimizer.step()
        end = time.perf_counter()
        return dict(forward=1e3 * (after_forward - start), backward=1e3 * (after_backward - after_forward),
                    optimizer=1e3 * (end - after_backward), total=1e3 * (end - start))

    def close(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="bazel-bin/bench/bert_step")
    parser.add_argument("--size", default="mini", choices=SIZES)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    case = dict(size=args.size, batch=args.batch, length=args.length, dropout=args.dropout)
    sides = {"lockstep": Lockstep(args.binary, case, args.threads)}
    for attention in ("sdpa", "eager"):
        sides[f"torch {attention}"] = Torch(case, args.threads, attention)
    times = take_turns(sides, 3, args.rounds, args.size)
    parts = ("forward", "backward", "optimizer", "total")
    medians = {side: {p: statistics.median(t[p] for t in times[side]) for p in parts} for side in sides}
    print(f"BERT-{args.size}, {args.batch} x {args.length}, dropout {args.dropout}, f32, {args.threads} threads, "
          f"{args.rounds} interleaved rounds (ms, median)\n")
    print("| | " + " | ".join(parts) + " |\n|---|---|---|---|---|")
    for side in sides:
        print(f"| {side} | " + " | ".join(f"{medians[side][p]:.1f}" for p in parts) + " |")
    best = min((side for side in sides if side != "lockstep"), key=lambda side: medians[side]["total"])
    print(f"\nlockstep / {best}: {medians['lockstep']['total'] / medians[best]['total']:.3f}")


if __name__ == "__main__":
    main()
