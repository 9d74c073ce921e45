"""Golden values of mixed precision, from PyTorch: a small model with each kind of layer, its loss and gradients under
torch.autocast("cpu", torch.bfloat16), and the same in f64, against which both sides' rounding is measured.

Run with a Python that has torch and safetensors; writes next to this file, in this project's layouts.
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).parent


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.norm1 = nn.LayerNorm(32)
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)
        self.norm2 = nn.LayerNorm(32)
        self.fc = nn.Linear(32, 5)

    def forward(self, images):
        y = torch.relu(self.bn1(self.conv1(images)))
        y = torch.relu(self.bn2(self.conv2(y)))
        y = self.norm1(y.flatten(2).transpose(1, 2))
        y = self.norm2(y + self.down(F.gelu(self.up(y))))
        return self.fc(y.mean(1))


def stored(tensor):
    tensor = tensor.detach()
    if tensor.dim() == 4:
        tensor = tensor.permute(0, 2, 3, 1)
    return (tensor.float() if tensor.is_floating_point() else tensor).contiguous().clone()


def results(prefix, model, images, targets, autocast):
    model.train()
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        logits = model(images)
        loss = F.cross_entropy(logits, targets)
    loss.backward()
    out = {f"{prefix}.logits": stored(logits), f"{prefix}.loss": stored(loss)}
    return out | {f"{prefix}.grad.{key}": stored(p.grad) for key, p in model.named_parameters()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(11)
    model = Net()
    images, targets = torch.randn(6, 3, 10, 10), torch.randint(0, 5, (6,))
    out = {"images": stored(images), "targets": targets}
    out |= {"before." + key: stored(value) for key, value in model.named_parameters()}
    out |= results("mixed", model, images, targets, autocast=True)
    out |= results("exact", model.double(), images.double(), targets, autocast=False)
    save_file(out, HERE / "autocast.safetensors")
