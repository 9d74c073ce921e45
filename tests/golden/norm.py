import torch
from golden import nchw, nhwc, normal


def cases(golden):
    def norm(training, **options):
        def fn(x, weight, bias, running_mean, running_var):
            return nhwc(torch.nn.functional.batch_norm(
                nchw(x), running_mean, running_var, weight, bias, training, **options))
        return fn

    def running():
        return {"running_mean": normal(6), "running_var": 0.5 + torch.rand(6)}

    x = lambda: 2 * normal(3, 5, 4, 6) + 1
    golden.case("training", norm(True, momentum=0.1), x(), normal(6), normal(6), **running())
    golden.case("evaluation", norm(False), x(), normal(6), normal(6), **running())
    golden.case("relu_residual",
                lambda x, weight, bias, residual, **r: torch.relu(norm(True, momentum=0.3)(x, weight, bias, **r) + residual),
                x(), normal(6), normal(6), normal(3, 5, 4, 6), **running())
