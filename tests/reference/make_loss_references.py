#!/usr/bin/env python3
"""make_loss_references.py [--to FOLDER] [NAME...]: point_losses, likelihoods and trained_losses.safetensors, as PyTorch computes them in float64.

point_losses    the fields that losses compare; of each loss NAME, weighted and not, with each reduction:
                NAME.REDUCTION[_weighted].{loss, grad_prediction}
likelihoods     the same of likelihoods, with their labels
trained_losses  dice.* and dice_smooth.*, the same of the soft Dice loss of sigmoid(prediction) and `segments`; `start`, the
                weight and bias of a convolution 3 x 3 of 6 channels of `prediction`; NAME.trained, these after 4 steps of
                AdamW by the weighted mean, and NAME.losses, before each step
"""
import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from chosen import chosen

SHAPE = (2, 6, 3, 7)
REDUCTIONS = ("mean", "sum", "batch_mean")


def dyadic(random, shape):
    return torch.tensor(random.integers(-64, 65, shape) / 64.0)


def ranked_probability_score(p, y, fair):
    """Of each point: members m of value k are p[:, m * K + k]; K values, each a score."""
    members = p.unflatten(1, (-1, y.shape[1]))
    count = members.shape[1]
    pairs = (members[:, :, None] - members[:, None]).abs().sum((1, 2)) / (2 * count * (count - 1 if fair else count))
    return (members - y[:, None]).abs().mean(1) - pairs


def fields():
    random = np.random.default_rng(71)
    classes = torch.tensor(random.integers(0, 6, (2, 1, *SHAPE[2:])))
    classes[0, 0, 1, :3] = -100
    weight = torch.tensor(random.random((2, 1, *SHAPE[2:])))
    weight[:, :, 2, :4] = 0
    probability = torch.softmax(dyadic(random, SHAPE), 1)
    probability[0, :2, 0, 0] = 0
    target = dyadic(random, SHAPE)
    return {"prediction": dyadic(random, SHAPE), "target": target, "classes": classes, "weight": weight,
            "classes_without_4": torch.where(classes == -100, 4, classes),
            "distribution": torch.softmax(2 * dyadic(random, SHAPE), 1), "probability": probability,
            "probability_each": torch.sigmoid(dyadic(random, SHAPE)),
            "logarithm": torch.log_softmax(dyadic(random, SHAPE), 1), "pair": target[:, :2].clone(),
            "segments": (dyadic(random, SHAPE) > 0.2).double()}


def cases(of):
    """name: (each point's loss, what each point counts in a mean, PyTorch's own with a reduction or None)."""
    target, class_weight = of["target"], torch.tensor([1, 2, 0.5, 0, 3, 1.5], dtype=torch.float64)
    ones = torch.ones(2, 1, *SHAPE[2:], dtype=torch.float64)

    def each(f, channels=6):
        return lambda p: f(p, "none"), ones * channels, f

    def by_class(label, weight=None, **options):
        label, counts = label[:, 0], torch.ones(6, dtype=torch.float64) if weight is None else weight
        ignored = options.get("ignore_index", -100)
        f = lambda p, reduction: F.cross_entropy(p, label, weight, reduction=reduction, **options)
        return (lambda p: f(p, "none")[:, None],
                torch.where(label != ignored, counts[label.clamp(min=0)], 0.0)[:, None], f)

    def quantile(p, q=0.9):
        return q * F.relu(target - p) + (1 - q) * F.relu(p - target)  # of slope 0 where they are equal, as Halogen's

    def distribution(p, reduction):
        return F.cross_entropy(p, of["distribution"], class_weight, label_smoothing=0.2, reduction=reduction)

    return {
        "mse": each(lambda p, r: F.mse_loss(p, target, reduction=r)),
        "l1": each(lambda p, r: F.l1_loss(p, target, reduction=r)),
        "huber": each(lambda p, r: F.huber_loss(p, target, delta=0.3, reduction=r)),
        "smooth_l1": each(lambda p, r: F.smooth_l1_loss(p, target, beta=0.3, reduction=r)),
        "bce": each(lambda p, r: F.binary_cross_entropy_with_logits(
            p, of["probability_each"], pos_weight=torch.tensor(2.5, dtype=torch.float64), reduction=r)),
        "kl": each(lambda p, r: F.kl_div(p, of["probability"], reduction=r)),
        "quantile": (quantile, ones * 6, None),
        "ce": by_class(of["classes"]),
        "ce_ignored": by_class(of["classes_without_4"], ignore_index=4),
        "ce_weighted": by_class(of["classes"], class_weight, label_smoothing=0.1),
        "ce_distribution": (lambda p: distribution(p, "none")[:, None], ones, distribution),
        "crps": (lambda p: ranked_probability_score(p, of["pair"], False), ones * 2, None),
        "crps_fair": (lambda p: ranked_probability_score(p, of["pair"], True), ones * 2, None),
    }


def likelihoods(of):
    """As cases()."""
    random = np.random.default_rng(73)
    ones = torch.ones(2, 1, *SHAPE[2:], dtype=torch.float64)
    of["counts"], of["triple"] = torch.tensor(random.integers(0, 6, SHAPE) / 1.0), of["target"][:, :3].clone()
    label, class_weight = of["classes"][:, 0], torch.tensor([1, 2, 0.5, 0, 3, 1.5], dtype=torch.float64)

    def poisson(log_input, full, eps):
        f = lambda p, r: F.poisson_nll_loss(p, of["counts"], log_input, full, eps=eps, reduction=r)
        return lambda p: f(p, "none"), ones * 6, f

    def normal(full, eps):
        own = lambda p, r: F.gaussian_nll_loss(p[:, :3], of["triple"], p[:, 3:].clamp(min=eps), full, eps, r)

        def each(p):  # PyTorch refuses negative variances, and takes the derivative at eps for those below it
            v = p[:, 3:] + (p[:, 3:].clamp(min=eps) - p[:, 3:]).detach()
            return (torch.log(v) + (p[:, :3] - of["triple"]) ** 2 / v + (np.log(2 * np.pi) if full else 0)) / 2
        return each, ones * 3, own
    f = lambda p, r: F.nll_loss(p, label, class_weight, reduction=r)
    return {"poisson": poisson(True, False, 1e-8), "poisson_full": poisson(True, True, 1e-8),
            "poisson_mean": poisson(False, False, 4.0), "gaussian": normal(False, 0.25), "gaussian_full": normal(True, 0.5),
            "nll": (lambda p: f(p, "none")[:, None],
                    torch.where(label != -100, class_weight[label.clamp(min=0)], 0.0)[:, None], f)}


def reduced(each_point, count, weight, reduction):
    """PyTorch has no weight field: a weighted mean is the sum of weight * loss by the sum of what each point counts."""
    divisor = {"mean": (weight * count).sum(), "sum": 1, "batch_mean": SHAPE[0]}[reduction]
    return (weight * each_point).sum() / divisor


def check_against_pytorch(own, p, of_mean, of_sum, of_batch):
    for value, reduction in ((of_mean, "mean"), (of_sum, "sum"), (of_batch, "batchmean")):
        try:
            expected = own(p, reduction)
        except ValueError:  # batchmean is KLDivLoss's alone
            continue
        torch.testing.assert_close(value, expected, rtol=1e-13, atol=0)


def soft_dice(p, y, weight, smooth, reduction):
    """MONAI's DiceLoss(smooth_nr=smooth, smooth_dr=smooth): of each sample and channel, then reduced; sums over points."""
    inside = lambda f: (weight * f).flatten(2).sum(2)
    each = 1 - (2 * inside(p * y) + smooth) / (inside(p) + inside(y) + smooth)
    return {"mean": each.mean(), "sum": each.sum(), "batch_mean": each.sum() / each.shape[0]}[reduction]


def with_gradient(tensors, name, prediction, loss):
    p = prediction.clone().requires_grad_()
    value = loss(p)
    value.backward()
    tensors |= {f"{name}.loss": value.detach(), f"{name}.grad_prediction": p.grad}


def trained(tensors, of, name, loss):
    """Four steps of AdamW on a convolution whose output the loss reads."""
    weight, bias = of["start"][:-6].reshape(6, 6, 3, 3).clone(), of["start"][-6:].clone()
    parameters = [weight.requires_grad_(), bias.requires_grad_()]
    optimizer, losses = torch.optim.AdamW(parameters, lr=0.02, weight_decay=0.1), []
    for _ in range(4):
        optimizer.zero_grad()
        value = loss(F.conv2d(of["prediction"], *parameters, padding=1))
        value.backward()
        optimizer.step()
        losses.append(value.item())
    tensors |= {f"{name}.trained": torch.cat([p.detach().flatten() for p in parameters]),
                f"{name}.losses": torch.tensor(losses, dtype=torch.float64)}


def main():
    folder, names = chosen(("point_losses", "likelihoods", "trained_losses"), __file__, __doc__)
    of = fields()
    ones, tensors, training = torch.ones_like(of["weight"]), dict(of), {}
    of["start"] = training["start"] = torch.tensor(np.random.default_rng(72).uniform(-0.2, 0.2, 6 * 6 * 9 + 6))
    training["segments"] = tensors.pop("segments")
    first, more = cases(of), likelihoods(of)
    likely = {label: of[label] for label in ("counts", "triple", "classes")}
    for name, (each_point, count, own) in (first | more).items():
        prediction = of["logarithm" if name == "kl" else "prediction"]
        if own:
            check_against_pytorch(own, prediction, *[reduced(each_point(prediction), count, ones, r) for r in REDUCTIONS])
        for reduction in REDUCTIONS:
            for suffix, w in (("", ones), ("_weighted", of["weight"])):
                with_gradient(tensors if name in first else likely, f"{name}.{reduction}{suffix}", prediction,
                              lambda p: reduced(each_point(p), count, w, reduction))
        trained(training, of, name, lambda p: reduced(each_point(p), count, of["weight"], "mean"))
    for name, smooth in (("dice", 1e-5), ("dice_smooth", 0.5)):
        for reduction in REDUCTIONS:
            for suffix, w in (("", ones), ("_weighted", of["weight"])):
                with_gradient(training, f"{name}.{reduction}{suffix}", of["prediction"],
                              lambda p: soft_dice(torch.sigmoid(p), of["segments"], w, smooth, reduction))
    trained(training, of, "dice", lambda p: soft_dice(torch.sigmoid(p), of["segments"], of["weight"], 1e-5, "mean"))
    files = {"point_losses": tensors, "likelihoods": likely, "trained_losses": training}  # computed together
    for name in names:
        save_file({k: v.contiguous().clone() for k, v in files[name].items()}, folder / f"{name}.safetensors")


if __name__ == "__main__":
    main()
