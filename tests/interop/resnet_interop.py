"""PyTorch's side of tools/interop.sh: the same ResNet here and there, weights exchanged as files.

For each model and each way (ours exported and loaded strictly by torchvision; torchvision's saved and imported strictly by
us): logits in evaluation; logits, gradients and running statistics after one step in training. Differences are the largest
one of a tensor relative to its largest magnitude, for the worst tensor.

Training is decided in f64. In f32 PyTorch itself is far from its f64 on so small a batch of a deep model: ours may be three
times as far as that, over all gradients together.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
import torchvision
from safetensors.torch import load_file, save_file

BOUND = 1e-5


def theirs(name, weights, images, grad_logits, dtype):
    model = getattr(torchvision.models, name)()
    model.load_state_dict(load_file(weights), strict=True)
    model.to(dtype).eval()
    x = images.to(dtype)
    with torch.no_grad():
        out = {"eval_logits": model(x)}
    model.train()
    logits = model(x)
    logits.backward(grad_logits.to(dtype))
    out["logits"] = logits.detach()
    out |= {f"grad.{key}": p.grad for key, p in model.named_parameters()}
    out |= {f"after.{key}": b for key, b in model.named_buffers()}
    return out


def worst(a, b, *prefixes):
    keys = [key for key in b if key.startswith(prefixes)]
    assert keys and all(a[key].shape == b[key].shape for key in keys)
    return max(((a[key].double() - b[key].double()).abs().max()
                / b[key].double().abs().max().clamp_min(1e-30)).item() for key in keys)


def overall(a, b, prefix):
    """The norm of all differences relative to that of all values."""
    keys = [key for key in b if key.startswith(prefix)]
    difference = sum((a[key].double() - b[key].double()).square().sum() for key in keys)
    return (difference / sum(b[key].double().square().sum() for key in keys)).sqrt().item()


def compare(name, way, weights, ours_program, folder):
    torch.manual_seed(5)
    images, grad_logits = torch.randn(4, 3, 96, 96), torch.randn(4, 1000) / 100
    save_file({"images": images.permute(0, 2, 3, 1).contiguous(), "grad_logits": grad_logits}, folder / "images")
    reference = theirs(name, weights, images, grad_logits, torch.float64)
    ok = True
    for dtype in ("f64", "f32"):
        subprocess.run([ours_program, "run", name, dtype, weights, folder / "images", folder / "ours"], check=True)
        ours = load_file(folder / "ours")
        given = load_file(weights)
        same = {key[5:]: value for key, value in ours.items() if key.startswith("same.")}
        assert same.keys() == given.keys(), "other names"
        assert all(torch.equal(same[key].to(given[key].dtype), given[key]) for key in given), "other values after import"
        torchs = reference if dtype == "f64" else theirs(name, weights, images, grad_logits, torch.float32)
        counts = worst(ours, {k: v for k, v in reference.items() if "num_batches" in k}, "after.")
        figures = {"eval logits": worst(ours, torchs, "eval_logits")}
        bounds = {"eval logits": BOUND}
        note = ""
        measure = worst if dtype == "f64" else overall
        for what, prefix in (("train logits", "logits"), ("gradients", "grad."), ("statistics", "after.")):
            figures[what], bounds[what] = measure(ours, reference, prefix), BOUND
            if dtype == "f32":
                own = measure(torchs, reference, prefix)
                bounds[what] = max(BOUND, 3 * own)
                note += f"; PyTorch's {what} {own:.1e}"
        good = counts == 0 and all(figures[what] <= bounds[what] for what in figures)
        ok = ok and good
        text = ", ".join(f"{what} {value:.1e}" for what, value in figures.items())
        print(f"{'ok  ' if good else 'FAIL'} {name} {way} {dtype}: {text}{note}", flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    ok = True
    for name in arguments.models:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            subprocess.run([arguments.program, "make", name, folder / "ours.safetensors"], check=True)
            ok &= compare(name, "lockstep -> torchvision", folder / "ours.safetensors", arguments.program, folder)
            torch.manual_seed(6)
            model = getattr(torchvision.models, name)()
            for i, (key, value) in enumerate(model.state_dict().items()):
                if key.endswith("running_mean"):
                    value.normal_(0, 0.1)
                elif key.endswith("running_var"):
                    value.uniform_(0.5, 1.5)
                elif key.endswith("num_batches_tracked"):
                    value.fill_(i)
                elif value.dim() == 1:
                    value.add_(0.2 * torch.randn_like(value))
            save_file(model.state_dict(), folder / "theirs.safetensors")
            ok &= compare(name, "torchvision -> lockstep", folder / "theirs.safetensors", arguments.program, folder)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
