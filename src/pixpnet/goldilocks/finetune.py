"""The paper's way to evaluate a cut (App. F): the network ends there, cells are averaged, and a linear layer learns.

Augmentation, rates, weight decay, schedule and the epochs in which the backbone is frozen are those of the paper's
preset of PixPNet; there are no prototypes. 10 epochs, 32 images in a batch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from pixpnet.data import Batch, Sample
from pixpnet.goldilocks.bench import Bench, Outcome, plain_learning
from pixpnet.goldilocks.candidates import Candidate
from pixpnet.goldilocks.pooled import PooledLinear
from pixpnet.goldilocks.settings import BATCH, FINETUNE_EPOCHS, preset, with_budget
from pixpnet.goldilocks.weights import is_random
from pixpnet.settings import Optimization
from pixpnet.training import TrainingDiverged, evaluate
from pixpnet.training.stages import schedule_of


def finetune(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
    """Trains a classifier at each cut and counts right answers on the validation images after the last epoch."""
    for candidate in candidates:
        model = pooled_linear(bench, candidate)
        optim = learning(bench, candidate)
        loader = bench.training_batches(optim.batch_size, optim.views)
        fit_pooled(model, loader, optim, bench.settings.seed, bench.device, share_done=bench.share_done)
        evaluation = evaluate(model, bench.classes, bench.validation_batches(optim.batch_size), bench.device)
        yield Outcome(candidate, evaluation.accuracy, evaluation.images)


def learning(bench: Bench, candidate: Candidate) -> Optimization:
    """The paper's way of learning, at the budget of the search."""
    settings = bench.settings
    budget = replace(settings, epochs=settings.epochs or FINETUNE_EPOCHS, batch=settings.batch or BATCH)
    optim = with_budget(preset("paper").optimization, budget)
    return plain_learning(optim, is_random(bench.weights[candidate.backbone]))


def pooled_linear(bench: Bench, candidate: Candidate) -> PooledLinear:
    """A new classifier, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(bench.settings.seed)
        return PooledLinear(bench.backbone(candidate), bench.classes).to(bench.device)


def fit_pooled(
    model: PooledLinear,
    loader: DataLoader[Sample],
    optim: Optimization,
    seed: int,
    device: torch.device | str = "cpu",
    half: bool = False,
    share_done: Callable[[float], None] | None = None,
) -> None:
    """Trains a classifier in place, with Adam and the schedule of its rates.

    Args:
        model: on the device.
        loader: of augmented views.
        optim: rates (`lr_add_on` is the head's), decay, epochs, and how many of them the backbone is frozen in.
        seed: of dropout and the like.
        device: where the model is.
        half: whether the backbone computes in bfloat16.
        share_done: told which share is done, 0-1.

    Raises:
        TrainingDiverged: if the loss becomes NaN or infinite.
    """
    groups = [
        {"params": list(model.backbone.parameters()), "lr": 0.0, "full_rate": optim.lr_backbone},
        {"params": list(model.head.parameters()), "lr": 0.0, "full_rate": optim.lr_add_on},
    ]
    optimizer = torch.optim.Adam([group for group in groups if group["params"]], weight_decay=optim.weight_decay)
    kind = torch.device(device).type
    rate = schedule_of(optim)
    with torch.random.fork_rng(devices=[]):
        for epoch in range(optim.epochs):
            loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
            torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0]))  # for dropout
            frozen = epoch < optim.warm_up_epochs
            model.train()
            model.backbone.train(not (frozen or optim.frozen_statistics))
            total = torch.zeros((), device=device)
            batch: Batch
            for step, batch in enumerate(loader):
                batch = batch.to(device)
                for group in optimizer.param_groups:
                    group["lr"] = group["full_rate"] * rate(epoch + step / len(loader))
                with torch.autocast(kind, torch.bfloat16, enabled=half):
                    logits = model(batch.images, frozen).logits
                loss = nn.functional.cross_entropy(logits.float(), batch.labels)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                total += loss.detach()
                if share_done is not None:
                    share_done((epoch + (step + 1) / len(loader)) / optim.epochs)
            if not total.isfinite():
                raise TrainingDiverged(f"the loss is NaN or infinite in epoch {epoch + 1}: are the weights damaged?")
