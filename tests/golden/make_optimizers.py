"""Golden values of optimizers, schedules and averaged weights, from PyTorch, each over five steps in f32 and in f64.

Run with a Python that has torch and safetensors; writes optimizers.safetensors and schedules.safetensors next to this file.
The starting weights and the gradients are f32 numbers, for both. PyTorch has no LAMB: lamb() is its paper's algorithm 2 (You
et al., ICLR 2020) in a few lines. The values in the repository come from torch 2.15.0.
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

HERE = pathlib.Path(__file__).parent
STEPS = 5
SHAPES = {"a": (5, 7), "b": (11,), "c": (3, 4), "d": (6,)}
WITHOUT_GRADIENT = {("c", 0), ("c", 3), ("b", 1)}  # unused in these steps
LR_FACTORS = [1.0, 0.5, 0.75, 0.25, 1.0]


class Lamb(torch.optim.Optimizer):
    """x -= lr * |x| / |r| * r with r = m^ / (sqrt(v^) + eps) + decay * x; without decay, the ratio is 1."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, always_adapt=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, always_adapt=always_adapt))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for x in group["params"]:
                if x.grad is None:
                    continue
                state = self.state[x]
                if not state:
                    state |= {"t": 0, "m": torch.zeros_like(x), "v": torch.zeros_like(x)}
                state["t"] += 1
                state["m"] = beta1 * state["m"] + (1 - beta1) * x.grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * x.grad ** 2
                m = state["m"] / (1 - beta1 ** state["t"])
                v = state["v"] / (1 - beta2 ** state["t"])
                r = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * x
                adapted = group["weight_decay"] != 0 or group["always_adapt"]
                ratio = x.norm() / r.norm() if adapted and x.norm() > 0 and r.norm() > 0 else 1.0
                x -= group["lr"] * ratio * r


def groups(p, first, second):
    return [{"params": [p["a"], p["b"]]} | first, {"params": [p["c"], p["d"]]} | second]


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(groups(p, dict(lr=0.01, weight_decay=0.1), dict(lr=0.02, betas=(0.8, 0.95), eps=1e-4))),
    "adamw": lambda p: torch.optim.AdamW(groups(
        p, dict(lr=0.01, weight_decay=0.1), dict(lr=0.02, weight_decay=0, betas=(0.5, 0.9)))),
    "lamb": lambda p: Lamb(groups(p, dict(lr=0.01, weight_decay=0.1), dict(lr=0.02, weight_decay=0, betas=(0.8, 0.95)))),
    "lamb_always": lambda p: Lamb(groups(p, dict(lr=0.01, weight_decay=0), dict(lr=0.02)), always_adapt=True),
    "sgd_dampening": lambda p: torch.optim.SGD(groups(
        p, dict(lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01), dict(lr=0.05, momentum=0.8, dampening=0.25))),
}


def optimizers(out):
    torch.manual_seed(11)
    before = {key: torch.randn(shape) for key, shape in SHAPES.items()}
    before["d"].zero_()  # LAMB: a norm of 0
    grads = [{key: torch.randn(shape) for key, shape in SHAPES.items() if (key, step) not in WITHOUT_GRADIENT}
             for step in range(STEPS)]
    out |= {f"before.{key}": value for key, value in before.items()}
    out |= {f"grad{step}.{key}": value for step in range(STEPS) for key, value in grads[step].items()}
    for dtype_name, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        for name, make in OPTIMIZERS.items():
            p = {key: value.to(dtype, copy=True).requires_grad_() for key, value in before.items()}
            optimizer = make(p)
            schedule = lr_scheduler.LambdaLR(optimizer, lambda step: LR_FACTORS[min(step, STEPS - 1)])
            for step in range(STEPS):
                for key in p:
                    p[key].grad = grads[step][key].to(dtype) if key in grads[step] else None
                optimizer.step()
                schedule.step()
                out |= {f"{name}.{dtype_name}.after{step}.{key}": p[key].detach().clone() for key in p}


class Weights(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(9, dtype=dtype))


def averages(out):
    """AveragedModel over five given weights; and the decays of timm's ModelEmaV3 with warm-up (its get_decay)."""
    torch.manual_seed(12)
    weights = [torch.randn(9) for _ in range(STEPS)]
    out |= {f"ema.weights{step}": value for step, value in enumerate(weights)}
    for dtype_name, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        for name, decay in (("high", 0.9), ("low", 0.3)):
            model = Weights(dtype)
            average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
            for step in range(STEPS):
                model.w.data.copy_(weights[step].to(dtype))
                average.update_parameters(model)
                out[f"ema.{name}.{dtype_name}.{step}"] = average.module.w.detach().clone()
    decays = []
    for num_updates in range(1, 200):
        step = max(0, num_updates - 0 - 1)
        decays.append(0.0 if step <= 0 else max(min(1 - (1 + step / 1.0) ** -(2 / 3), 0.95), 0.0))
    out["ema.warmup_decays"] = torch.tensor(decays, dtype=torch.float64)


def schedules():
    total, warmup = 40, 7
    makers = {
        "one_cycle_cosine": lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=total, cycle_momentum=False),
        "one_cycle_linear": lambda o: lr_scheduler.OneCycleLR(
            o, 1.0, total_steps=total, pct_start=0.33, anneal_strategy="linear", div_factor=10, final_div_factor=100,
            cycle_momentum=False),
        "one_cycle_three_phases": lambda o: lr_scheduler.OneCycleLR(
            o, 1.0, total_steps=total, three_phase=True, cycle_momentum=False),
        "polynomial": lambda o: lr_scheduler.PolynomialLR(o, total_iters=total - 5, power=2.5),
        "warmup_linear": lambda o: lr_scheduler.LambdaLR(
            o, lambda s: s / warmup if s < warmup else max(0.0, (total - 5 - s) / (total - 5 - warmup))),
        "constant": lambda o: lr_scheduler.ConstantLR(o, factor=1.0),
        "step": lambda o: lr_scheduler.StepLR(o, 6, 0.5),
        "multi_step": lambda o: lr_scheduler.MultiStepLR(o, [3, 5, 5, 20]),
        "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, total - 1, eta_min=0.1),
        "warmup": lambda o: lr_scheduler.LinearLR(o, start_factor=0.2, total_iters=warmup),
        "chained": lambda o: lr_scheduler.SequentialLR(
            o, [lr_scheduler.LinearLR(o, start_factor=0.2, total_iters=warmup), lr_scheduler.StepLR(o, 10, 0.5)],
            milestones=[warmup]),
        "multiplied": lambda o: lr_scheduler.ChainedScheduler(
            [lr_scheduler.LinearLR(o, start_factor=0.2, total_iters=warmup), lr_scheduler.StepLR(o, 10, 0.5)]),
    }
    out = {}
    for name, make in makers.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        schedule = make(optimizer)
        rates = []
        for step in range(total):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if step + 1 < total:
                schedule.step()
        out[name] = torch.tensor(rates, dtype=torch.float64)
    save_file(out, HERE / "schedules.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    values = {}
    optimizers(values)
    averages(values)
    save_file({key: value.contiguous() for key, value in values.items()}, HERE / "optimizers.safetensors")
    schedules()
