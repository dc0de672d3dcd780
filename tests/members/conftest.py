"""A small tree that is trained once for all tests."""

from typing import Any

import pytest

from pixpnet.config import RunConfig
from pixpnet.parts import TreeDecision
from pixpnet.training.fitting import Fitting
from tests.members.toys import Trained, trained_run
from tests.members.tree_material import SETTINGS, STEPS, tree_of
from tests.training.material import draw_pictures


@pytest.fixture(scope="session")
def tree_config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    squares = draw_pictures(tmp_path_factory.mktemp("prototree") / "squares")
    return RunConfig(member="prototree", data=f"folder:{squares}", backbone="small-21", size=32, settings=SETTINGS)


@pytest.fixture(scope="session")
def tree_run(tree_config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    original = TreeDecision.observe

    def observe(self: TreeDecision, step: Any) -> None:
        STEPS.append(
            {
                "scores": step.required_matches.scores.detach().double().numpy().copy(),
                "labels": step.labels.numpy().copy(),
                "before": self.knowledge.double().numpy().copy(),
            }
        )
        original(self, step)

    def after_step(fitting: Fitting) -> None:
        STEPS[-1] |= {"after": tree_of(fitting.model).knowledge.double().numpy().copy(), "epoch": fitting.current_epoch}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TreeDecision, "observe", observe)
        return trained_run(tree_config, tmp_path_factory.mktemp("runs") / "prototree", after_step)
