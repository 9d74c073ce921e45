import torch
from golden import normal

F = torch.nn.functional


def cases(golden):
    for reduction in ("mean", "sum"):
        golden.case(f"mse_{reduction}", lambda x, t: F.mse_loss(x, t, reduction=reduction), normal(9, 13), normal(9, 13))
        golden.case(f"bce_{reduction}",
                    lambda x, targets: F.binary_cross_entropy_with_logits(x, targets, reduction=reduction),
                    4 * normal(9, 13), targets=torch.rand(9, 13))
        golden.case(f"bce_weighted_{reduction}",
                    lambda x, targets, pos_weight: F.binary_cross_entropy_with_logits(
                        x, targets, pos_weight=pos_weight, reduction=reduction),
                    4 * normal(9, 13), targets=torch.rand(9, 13), pos_weight=3 * torch.rand(13))
        targets = torch.randint(0, 13, (9,))
        targets[4] = 5
        golden.case(f"nll_{reduction}", lambda x, targets: F.nll_loss(x, targets, reduction=reduction, ignore_index=5),
                    normal(9, 13), targets=targets)
        golden.case(f"cosine_{reduction}",
                    lambda a, b, labels: F.cosine_embedding_loss(a, b, labels, margin=0.1, reduction=reduction),
                    normal(9, 13), normal(9, 13), labels=torch.randint(0, 2, (9,)) * 2 - 1)
