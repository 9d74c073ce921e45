import torch
from golden import nchw, nhwc, normal

nn = torch.nn


def cases(golden):
    def layer(name, module, x, *parameters, images=False, **extra):
        """torch.nn's layer itself, with these values for its parameters, in the order in which it registers them."""
        names = [key for key, _ in module.named_parameters()]
        module = module.double()

        def call(x, *values, **extra):
            values = [nchw(value) if value.dim() == 4 else value for value in values]
            arguments = (nchw(x) if images else x, *extra.values())
            y = torch.func.functional_call(module, dict(zip(names, values, strict=True)), arguments)
            return nhwc(y) if y.dim() == 4 else y

        golden.case(name, call, x, *parameters, **extra)

    layer("Linear", nn.Linear(5, 3), normal(4, 5), normal(3, 5), normal(3))
    layer("Linear_no_bias", nn.Linear(5, 3, bias=False), normal(2, 4, 5), normal(3, 5))
    layer("Conv2d", nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2), normal(2, 7, 6, 4),
          normal(6, 3, 2, 2), normal(6), images=True)
    layer("BatchNorm2d", nn.BatchNorm2d(3, eps=1e-3), 2 * normal(4, 2, 3, 3) + 1, normal(3), normal(3), images=True)
    layer("BatchNorm2d_eval", nn.BatchNorm2d(3, eps=1e-3).eval(), normal(4, 2, 3, 3), normal(3), normal(3), images=True)
    layer("LayerNorm", nn.LayerNorm((3, 4), eps=1e-3), 2 * normal(5, 3, 4) + 1, normal(3, 4), normal(3, 4))
    layer("LayerNorm_no_bias", nn.LayerNorm(6, bias=False), normal(5, 6), normal(6))
    layer("LayerNorm_plain", nn.LayerNorm(6, elementwise_affine=False), normal(5, 6))
    layer("GroupNorm", nn.GroupNorm(2, 6, eps=1e-3), 2 * normal(3, 4, 2, 6) + 1, normal(6), normal(6), images=True)
    layer("ReLU", nn.ReLU(), normal(4, 5))
    layer("GELU", nn.GELU(), normal(4, 5))
    layer("GELU_tanh", nn.GELU(approximate="tanh"), normal(4, 5))
    layer("Sigmoid", nn.Sigmoid(), normal(4, 5))
    layer("Tanh", nn.Tanh(), normal(4, 5))
    layer("SiLU", nn.SiLU(), normal(4, 5))
    layer("MaxPool2d", nn.MaxPool2d((3, 2), stride=(2, 1), padding=(1, 0)), normal(2, 6, 5, 3), images=True)
    layer("AvgPool2d", nn.AvgPool2d((3, 2), stride=(2, 1), padding=(1, 0)), normal(2, 6, 5, 3), images=True)
    layer("GlobalAvgPool2d", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), normal(2, 6, 5, 3), images=True)
    layer("Flatten", nn.Flatten(), normal(2, 3, 4))
    layer("Dropout_eval", nn.Dropout(0.5).eval(), normal(4, 5))
    layer("Sequential", nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2)), normal(4, 5), normal(6, 5), normal(6),
          normal(2, 6), normal(2))
    for name, padding in (("Embedding", None), ("Embedding_padding", 2)):
        lookup = nn.Embedding(7, 4, padding_idx=padding)
        golden.case(name, lambda w, ids: torch.func.functional_call(lookup, {"weight": w}, (ids,)), normal(7, 4),
                    ids=torch.tensor([[3, 2, 3], [0, 6, 2]]))
    targets = torch.tensor([2, 0, 3, 1, 3])
    layer("CrossEntropyLoss", nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1), normal(5, 4), targets=targets)
    layer("NLLLoss", nn.NLLLoss(ignore_index=0, reduction="sum"), normal(5, 4), targets=targets)
    golden.case("MSELoss", nn.MSELoss(reduction="sum"), normal(5, 4), normal(5, 4))
    golden.case("BCEWithLogitsLoss", lambda x, pos_weight, targets: nn.BCEWithLogitsLoss(pos_weight=pos_weight)(x, targets),
                3 * normal(5, 4), targets=torch.rand(5, 4), pos_weight=torch.rand(4) + 0.5)
    golden.case("CosineEmbeddingLoss", lambda a, b, labels: nn.CosineEmbeddingLoss(margin=-0.2)(a, b, labels),
                normal(5, 4), normal(5, 4), labels=torch.tensor([1, -1, -1, 1, -1]))
