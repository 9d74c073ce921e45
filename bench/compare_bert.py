#!/usr/bin/env python3
"""Steps of BERT's pretraining, Lockstep's beside transformers': same sizes, batch, threads and machine, in one run.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch transformers
    bazel build --config=opt --config=avx512 //bench:train_step
    /tmp/torch/bin/python bench/compare_bert.py

All take turns step by step, in random order. Both sides run forward, the loss, backward and AdamW, with dropout, in f32 and
in bf16 (Autocast; torch.autocast), on a batch of which every eighth token is masked. transformers computes logits of all
tokens; so that the comparison is of one work, PyTorch's side applies the head to the masked tokens alone, as ours does.

Memory is of a process for each side: the most that it held during three steps, less what it held before there was a model,
less parameters, gradients and the optimizer's two moments, all f32.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

from compare_torch import Lockstep, autocast, take_turns, tell_ratios

SIZES = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512), "base": (12, 768), "large": (24, 1024)}


class Torch:
    def __init__(self, case, threads, attention, precision):
        import torch
        from transformers import BertConfig, BertForMaskedLM

        torch.set_num_threads(threads)
        torch.manual_seed(1)
        layers, hidden = SIZES[case["model"].removeprefix("bert-")]
        self.torch = torch
        self.mixed = precision == "bf16"
        self.model = BertForMaskedLM(BertConfig(
            num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=hidden // 64, intermediate_size=4 * hidden,
            max_position_embeddings=case["length"],
            hidden_dropout_prob=case["dropout"], attention_probs_dropout_prob=case["dropout"],
            attn_implementation=attention)).train()
        tokens = case["batch"] * case["length"]
        self.ids = torch.randint(0, 30522, (case["batch"], case["length"]))
        self.positions = torch.arange(0, tokens, 8)
        self.labels = torch.randint(0, 30522, self.positions.shape)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def step(self):
        self.optimizer.zero_grad()
        start = time.perf_counter()
        with autocast(self):
            masked = self.model.bert(self.ids).last_hidden_state.flatten(0, 1)[self.positions]
            loss = self.torch.nn.functional.cross_entropy(self.model.cls.predictions(masked), self.labels)
        after_forward = time.perf_counter()
        loss.backward()
        after_backward = time.perf_counter()
        self.optimizer.step()
        end = time.perf_counter()
        return dict(forward=1e3 * (after_forward - start), backward=1e3 * (after_backward - after_forward),
                    optimizer=1e3 * (end - after_backward), total=1e3 * (end - start))

    def close(self):
        pass


def resident_mb():
    with open("/proc/self/status") as status:
        return next(float(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def measure_torch_memory(case, threads, precision):
    """Printed for the process that started this one: MB held at most, and MB of parameters."""
    import transformers.models.bert.modeling_bert  # before anything is counted

    before = resident_mb()
    side = Torch(case, threads, "sdpa", precision)
    for _ in range(3):
        side.step()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(peak - before, sum(p.numel() for p in side.model.parameters()) * 4 / 2**20)


def memory_table(args, case):
    parts = {}
    for precision in args.precisions:
        own = [sys.executable, __file__, "--measure-torch-memory", precision, "--threads", str(args.threads)]
        own += ["--size", case["model"].removeprefix("bert-")]
        for key in ("batch", "length", "dropout"):
            own += [f"--{key}", str(case[key])]
        torch_mb, parameters = map(float, subprocess.run(own, check=True, capture_output=True, text=True).stdout.split())
        ours = Lockstep(args.binary, case, args.threads, precision)
        lockstep_mb = [ours.step() for _ in range(3)][-1]["memory_mb"]
        ours.close()
        parts[precision] = [mb - 4 * parameters for mb in (lockstep_mb, torch_mb)]
    print(f"\nMemory beyond 4 x {parameters:.0f} MB of parameters, gradients and moments, MB\n")
    print("| | lockstep | torch sdpa | ratio |\n|---|---|---|---|")
    for precision, (ours, torchs) in parts.items():
        print(f"| {precision} | {ours:.0f} | {torchs:.0f} | {ours / torchs:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="bazel-bin/bench/train_step")
    parser.add_argument("--size", default="mini", choices=SIZES)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--precisions", nargs="+", default=["f32", "bf16"], choices=["f32", "bf16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--measure-torch-memory", choices=["f32", "bf16"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    case = dict(model=f"bert-{args.size}", batch=args.batch, length=args.length, dropout=args.dropout)
    if args.measure_torch_memory:
        return measure_torch_memory(case, args.threads, args.measure_torch_memory)
    sides = {}
    for precision in args.precisions:
        sides[f"lockstep {precision}"] = Lockstep(args.binary, case, args.threads, precision)
        for attention in ("sdpa", "eager"):
            sides[f"torch {attention} {precision}"] = Torch(case, args.threads, attention, precision)
    times = take_turns(sides, 3, args.rounds, args.size)
    parts = ("forward", "backward", "optimizer", "total")
    medians = {side: {p: statistics.median(t[p] for t in times[side]) for p in parts} for side in sides}
    print(f"BERT-{args.size}, {args.batch} x {args.length}, dropout {args.dropout}, {args.threads} threads, "
          f"{args.rounds} interleaved rounds (ms, median)\n")
    print("| | " + " | ".join(parts) + " |\n|---|---|---|---|---|")
    for side in sides:
        print(f"| {side} | " + " | ".join(f"{medians[side][p]:.1f}" for p in parts) + " |")
    print()
    tell_ratios(args.precisions, lambda side: medians[side]["total"], sides)
    memory_table(args, case)


if __name__ == "__main__":
    main()
