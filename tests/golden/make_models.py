"""Golden values for models and optimizers, from PyTorch and torchvision.

Run with a Python that has torch, torchvision and safetensors; writes next to this file. Everything is computed in f64 from
weights and inputs that are f32 numbers, and stored as f32, so that a difference is the other side's error alone.
Images and convolution weights are stored in this project's layouts, NHWC and [out, kh, kw, in].
"""
import pathlib

import torch
import torchvision
from safetensors.torch import save_file
from torchvision.models.resnet import BasicBlock, Bottleneck

HERE = pathlib.Path(__file__).parent


def stored(tensor):
    tensor = tensor.detach()
    if tensor.dim() == 4:
        tensor = tensor.permute(0, 2, 3, 1)
    return (tensor.float() if tensor.is_floating_point() else tensor).contiguous().clone()


class SmallResNet(torch.nn.Module):
    """torchvision's blocks with a 3x3 stem without pooling, one block a stage."""

    def __init__(self, block, widths, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(widths[0])
        channels = widths[0]
        self.stages = len(widths)
        for i, width in enumerate(widths):
            stride, out, downsample = 1 if i == 0 else 2, width * block.expansion, None
            if stride != 1 or channels != out:
                downsample = torch.nn.Sequential(
                    torch.nn.Conv2d(channels, out, 1, stride, bias=False), torch.nn.BatchNorm2d(out))
            setattr(self, f"layer{i + 1}",
                    torch.nn.Sequential(block(channels, width, stride, downsample)))
            channels = out
        self.fc = torch.nn.Linear(channels, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for i in range(self.stages):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(x.mean((2, 3)))


def small_resnet(name, block, widths, seed):
    torch.manual_seed(seed)
    model = SmallResNet(block, widths, classes=5)
    for key, buffer in model.named_buffers():
        if key.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        if key.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    for key, parameter in model.named_parameters():
        if "bn" in key or "downsample.1" in key:
            parameter.data.add_(0.2 * torch.randn_like(parameter))
    images, grad_logits = torch.randn(4, 3, 12, 12), torch.randn(4, 5)
    out = {"images": stored(images), "grad_logits": grad_logits}
    out |= {"before." + key: stored(value) for key, value in model.state_dict().items()}
    # As torchvision's users save it, names and layouts untouched.
    save_file(model.state_dict(), HERE / f"{name}_torchvision.safetensors")
    model.double().eval()
    out["eval_logits"] = stored(model(images.double()))
    model.train()
    logits = model(images.double())
    logits.backward(grad_logits.double())
    out["logits"] = stored(logits)
    out |= {"grad." + key: stored(parameter.grad) for key, parameter in model.named_parameters()}
    out |= {"after." + key: stored(value) for key, value in model.named_buffers()}
    save_file(out, HERE / f"{name}.safetensors")


def sgd():
    """Five steps of two groups with nesterov and plain momentum; "c" has no gradient at steps 1 and 3."""
    torch.manual_seed(7)
    shapes = {"a": (5, 7), "b": (11,), "c": (3, 4), "d": (6,)}
    params = {key: torch.randn(shape).requires_grad_() for key, shape in shapes.items()}
    optimizer = torch.optim.SGD([
        {"params": [params["a"], params["b"]], "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01,
         "nesterov": True},
        {"params": [params["c"]], "lr": 0.05, "momentum": 0.8},
        {"params": [params["d"]], "lr": 0.2, "weight_decay": 0.1}], lr=1.0)
    out = {f"before.{key}": stored(p) for key, p in params.items()}
    for step in range(5):
        optimizer.zero_grad()
        for key, p in params.items():
            if key == "c" and step in (1, 3):
                continue
            p.grad = torch.randn_like(p)
            out[f"grad{step}.{key}"] = stored(p.grad)
        optimizer.step()
        out |= {f"after{step}.{key}": stored(p) for key, p in params.items()}
    save_file(out, HERE / "sgd.safetensors")


def clip():
    """clip_grad_norm_ with a bound below, above, and just below the norm, on gradients of which one is lacking."""
    torch.manual_seed(8)
    shapes = {"a": (5, 7), "b": (11,), "c": (3, 4), "d": (40000,)}
    grads = {key: 1e-3 * torch.randn(shape) for key, shape in shapes.items() if key != "c"}
    out = {f"grad.{key}": stored(grad) for key, grad in grads.items()}
    for name, bound in (("below", 0.05), ("above", 10.0), ("near", 0.2)):
        params = [torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in shapes.values()]
        for key, p in zip(shapes, params):
            if key in grads:
                p.grad = grads[key].double()
        out[f"{name}.norm"] = torch.nn.utils.clip_grad_norm_(params, bound)
        out |= {f"{name}.{key}": stored(p.grad) for key, p in zip(shapes, params) if key in grads}
    save_file(out, HERE / "clip.safetensors")


def names():
    """Every entry of torchvision's state dicts with its shape in this project's layout, one a line."""
    lines = []
    for name in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"):
        with torch.device("meta"):
            model = getattr(torchvision.models, name)()
        count = sum(p.numel() for p in model.parameters())
        lines.append(f"{name} {count}")
        for key, value in model.state_dict().items():
            shape = list(value.shape)
            if len(shape) == 4:
                shape = [shape[i] for i in (0, 2, 3, 1)]
            lines.append(f"{key} {shape}")
    (HERE / "resnet_names.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    small_resnet("resnet_basic", BasicBlock, (4, 6, 8), seed=1)
    small_resnet("resnet_bottleneck", Bottleneck, (4, 6), seed=2)
    sgd()
    clip()
    names()
