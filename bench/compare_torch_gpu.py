#!/usr/bin/env python3
"""Full training steps on a GPU beside PyTorch's: same model, batch and GPU, in one run.

    bazel build --config=opt --config=cuda //bench:train_step
    python bench/compare_torch_gpu.py --output bench/results/gpu.md

The two take turns in blocks of steps. PyTorch runs eager and compiled, channels-last, under bf16 autocast, with fused
optimizers and its scaled-dot-product attention; the ratio is against the better of the two. A step is forward,
cross-entropy, backward and optimizer on data that is on the GPU already. The share of the GPU's peak counts the
multiplications and additions of forward and backward (three forwards) of the products alone.

Over several GPUs each rank runs this script, and PyTorch wraps its model in DistributedDataParallel:

    torchrun --nproc-per-node 8 bench/compare_torch_gpu.py
    MASTER_ADDR=HOST MASTER_PORT=29500 srun --ntasks-per-node 8 python bench/compare_torch_gpu.py
"""

import argparse
import datetime
import gc
import json
import os
import statistics
import subprocess
import sys
import time

CASES = {
    "resnet50": dict(model="resnet50", size=224, batch=256, classes=1000),
    "bert-base-128": dict(model="bert-base", length=128, batch=64),
    "bert-base-512": dict(model="bert-base", length=512, batch=16),
    "bert-large-128": dict(model="bert-large", length=128, batch=32),
    "bert-large-512": dict(model="bert-large", length=512, batch=8),
}
MASK_EVERY, WORDS = 8, 30522  # as bench/train_step's
BERT = {"bert-base": (12, 768, 12), "bert-large": (24, 1024, 16)}
RESNET50_FLOP = 2 * 4.09e9  # of one image's forward
PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # bf16, dense


def rank_of_job():
    for rank, size, local in (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")):
        if rank in os.environ:
            found = int(os.environ[rank]), int(os.environ[size]), int(os.environ[local])
            # PyTorch reads torchrun's names alone.
            for name, value in zip(("RANK", "WORLD_SIZE", "LOCAL_RANK"), found):
                os.environ.setdefault(name, str(value))
            return found
    return 0, 1, 0


def forward_flop(case):
    """Of one sample: two for each multiplication and addition of a product."""
    if "size" in case:
        return RESNET50_FLOP
    layers, hidden, _ = BERT[case["model"]]
    tokens = case["length"]
    encoder = layers * tokens * (2 * 12 * hidden * hidden + 4 * tokens * hidden)
    masked = (tokens + MASK_EVERY - 1) // MASK_EVERY
    return encoder + masked * 2 * hidden * (hidden + WORDS)


class Lockstep:
    """bench/train_step as a child: one step for each line it reads."""

    def __init__(self, binary, case, precision):
        way = "overlapped:25" + (":bf16" if precision == "bf16" else "")
        command = [binary, "--device", "cuda", "--way", way]
        for key, value in case.items():
            command += [f"--{key}", str(value)]
        environment = dict(os.environ)
        if "MASTER_PORT" in environment:  # PyTorch's ranks meet at that one
            environment["MASTER_PORT"] = str(int(environment["MASTER_PORT"]) + 1)
        self.binary = binary
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def steps(self, count):
        times = []
        for _ in range(count):
            line = ""
            try:
                self.child.stdin.write("0\n")
                self.child.stdin.flush()
                line = self.child.stdout.readline()
            except BrokenPipeError:
                pass
            if not line:
                raise SystemExit(f"{self.binary} ended with {self.child.wait()}; what it said stands above")
            times.append(json.loads(line)["total"])
        return times

    def close(self):
        self.child.stdin.close()
        self.child.wait()


class Torch:
    def __init__(self, case, precision, compiled, local_rank, world):
        import torch

        self.torch = torch
        torch.cuda.set_device(local_rank)
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = True
        self.mixed = precision == "bf16"
        batch = case["batch"]
        if "size" in case:
            import torchvision

            model = getattr(torchvision.models, case["model"])(num_classes=case["classes"])
            self.model = model.cuda().to(memory_format=torch.channels_last).train()
            x = torch.randn(batch, 3, case["size"], case["size"], device="cuda")
            self.inputs = dict(x=x.to(memory_format=torch.channels_last))
            self.labels = torch.randint(0, case["classes"], (batch,), device="cuda")
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, fused=True)
        else:
            self.model = masked_lm(case).cuda().train()
            ids = torch.randint(2, WORDS, (batch, case["length"]), device="cuda")
            masked = torch.arange(0, batch * case["length"], device="cuda").view(batch, -1)[:, ::MASK_EVERY].reshape(-1)
            self.inputs = dict(ids=ids, masked=masked)
            self.labels = torch.randint(2, WORDS, (masked.numel(),), device="cuda")
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        if world > 1:
            self.model = torch.nn.parallel.DistributedDataParallel(
                self.model, device_ids=[local_rank], gradient_as_bucket_view=True)
        if compiled:
            self.model = torch.compile(self.model)
        self.loss = torch.nn.CrossEntropyLoss()

    def steps(self, count):
        times = []
        for _ in range(count):
            self.torch.cuda.synchronize()
            start = time.perf_counter()
            self.optimizer.zero_grad()
            with self.torch.autocast("cuda", self.torch.bfloat16, enabled=self.mixed):
                loss = self.loss(self.model(**self.inputs), self.labels)
            loss.backward()
            self.optimizer.step()
            self.torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start))
        return times

    def close(self):
        # What was compiled for this shape must not make the next one's dynamic.
        self.model = self.optimizer = self.inputs = self.labels = None
        gc.collect()
        self.torch._dynamo.reset()
        self.torch.cuda.empty_cache()


def masked_lm(case):
    """transformers' BERT, whose head computes the logits of the masked positions alone, as Lockstep's does."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    layers, hidden, heads = BERT[case["model"]]

    class MaskedLm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            config = BertConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                intermediate_size=4 * hidden, max_position_embeddings=case["length"],
                                attn_implementation="sdpa")
            self.bert = BertForMaskedLM(config)

        def forward(self, ids, masked):
            rows = self.bert.bert(ids).last_hidden_state
            return self.bert.cls(rows.reshape(-1, rows.shape[-1])[masked])

    return MaskedLm()


def measure(case, precision, args, local_rank, world):
    """The median milliseconds of a step, by side."""
    makers = {
        "lockstep": lambda: Lockstep(args.binary, case, precision),
        "torch eager": lambda: Torch(case, precision, False, local_rank, world),
        "torch compiled": lambda: Torch(case, precision, True, local_rank, world),
    }
    sides = {name: make() for name, make in makers.items()}
    for side in sides.values():
        side.steps(args.warmup)
    times = {name: [] for name in sides}
    for _ in range(args.rounds):
        for name, side in sides.items():
            times[name] += side.steps(args.steps)
    for side in sides.values():
        side.close()
    return {name: statistics.median(values) for name, values in times.items()}


def table(name, case, precision, medians, peak, world):
    per_step = case["batch"] * world
    best = min(value for side, value in medians.items() if side != "lockstep")
    lines = [f"\n{name}, batch {case['batch']} x {world}, {precision}\n",
             "| | step, ms | samples/s | share of peak |", "|---|---|---|---|"]
    for side, ms in medians.items():
        share = 3 * forward_flop(case) * case["batch"] / (ms * 1e-3) / peak if peak else float("nan")
        lines.append(f"| {side} | {ms:.2f} | {per_step / ms * 1e3:.0f} | {100 * share:.0f} % |")
    lines.append(f"\nlockstep's throughput / the better one of PyTorch's: {best / medians['lockstep']:.3f}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="bazel-bin/bench/train_step")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--precisions", nargs="+", default=["bf16"], choices=["f32", "bf16"])
    parser.add_argument("--warmup", type=int, default=10, help="steps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="of each side in a round")
    parser.add_argument("--output", help="append the tables to this file")
    args = parser.parse_args()
    import torch

    rank, world, local_rank = rank_of_job()
    local_rank %= torch.cuda.device_count()  # of which each rank may see its own alone
    torch.cuda.set_device(local_rank)
    if world > 1:
        if "MASTER_ADDR" not in os.environ:
            raise SystemExit("compare_torch_gpu: wanted MASTER_ADDR, the host of rank 0, in the environment")
        os.environ.setdefault("MASTER_PORT", "29500")
        torch.distributed.init_process_group("nccl")
    chip = torch.cuda.get_device_name(local_rank)
    peak = next((value for name, value in PEAK.items() if name in chip), None)

    def report(text):
        """At once, so that a run that is cut short leaves what it has measured."""
        if rank != 0:
            return
        print(text, flush=True)
        if args.output:
            os.makedirs(os.path.dirname(args.output) or ".", exist_ok=True)
            with open(args.output, "a", encoding="utf-8") as out:
                out.write(text + "\n")

    report(f"\n## {datetime.date.today()}, {chip}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, "
           f"cuDNN {torch.backends.cudnn.version()}")
    for name in args.cases:
        for precision in args.precisions:
            medians = measure(CASES[name], precision, args, local_rank, world)
            report(table(name, CASES[name], precision, medians, peak, world))


if __name__ == "__main__":
    sys.exit(main())
