"""What PyTorch's optimisers, schedules and their modules have and these have not: what to write.

``optimizer.zero_grad()`` is an AttributeError that says: use nothing, gradients are returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

#: By the name that an optimiser lacks; the tests run what is code.
OPTIMIZER = {
    "add_param_group": "optimizer.with_group('head.*', learning_rate=0.1)",
    "load_state_dict": "optimizer.load_record(model, record)",
    "param_groups": "optimizer.learning_rates(), and with_group for another one",
    "register_step_post_hook": "model = optimizer.step(model, gradients), and what follows it",
    "register_step_pre_hook": "model = optimizer.step(model, gradients), and what precedes it",
    "state": "optimizer.record(model).arrays",
    "state_dict": "optimizer.record(model)",
    "zero_grad": "nothing: gradients are returned, anew each time",
}

#: By the name that `pyrite.optim` lacks.
MODULE = {
    "SparseAdam": "optim.Adam(1e-3), for gradients are dense",
    "lr_scheduler": "optim.schedule, given in the place of a learning rate",
}

#: By the name of PyTorch's schedule, ours, which takes the place of a learning rate.
SCHEDULES = {
    "ChainedScheduler": "schedule.Composed([schedule.Constant(0.1), lambda step: 0.5], 'prod')",
    "ConstantLR": "schedule.Sequential([schedule.Constant(0.03), schedule.Constant(0.1)], [5])",
    "CosineAnnealingLR": "schedule.CosineAnnealing(0.1, steps=100)",
    "CosineAnnealingWarmRestarts": "schedule.CosineWarmRestarts(0.1, period=10)",
    "ExponentialLR": "schedule.Exponential(0.1, gamma=0.9)",
    "LambdaLR": "optim.SGD(lambda step: 0.1 / (1 + step)), for a function is a schedule",
    "LinearLR": "schedule.WarmUp(0.1, steps=5, start_factor=1 / 3)",
    "LRScheduler": "optim.SGD(lambda step: 0.1 / (1 + step)), for a function is a schedule",
    "MultiStepLR": "schedule.MultiStep(0.1, milestones=[30, 80])",
    "MultiplicativeLR": "optim.SGD(lambda step: 0.1 * 0.95**step), for a function is a schedule",
    "OneCycleLR": "schedule.OneCycle(0.1, steps=100)",
    "PolynomialLR": "schedule.Polynomial(0.1, steps=5)",
    "ReduceLROnPlateau": "schedule.ReduceOnPlateau(0.1), and optimizer.observe(metric)",
    "SequentialLR": "schedule.Sequential([schedule.Constant(0.1), lambda step: 0.5], [20])",
    "StepLR": "schedule.Step(0.1, step_size=30)",
}


class TorchNames:
    """An object that answers for what PyTorch's optimisers have."""

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Name what is used here."""
            if name not in OPTIMIZER:
                return object.__getattribute__(self, name)  # the ordinary error
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; use {OPTIMIZER[name]}"
            )
