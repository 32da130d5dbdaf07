"""Where TorchScript and compiled steps could go wrong in silence: names of pairs, hooks and forwards that come late."""

import pytest

torch = pytest.importorskip("torch")

from small_rooms_torchscript import torchscript_room  # noqa: E402
from test_torch_compile import FAST, Net, assert_close, build, end  # noqa: E402

from delira.io import load_checkpoint_torchscript  # noqa: E402
from delira.models import AbstractPyTorchNetwork  # noqa: E402

ROOM = torchscript_room()


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


NAMES = ["mine", "mine.pt", "mine.pth", "mine.ptj", "mine_model.ptj", "mine_trainer_state.pt", "mine.v1", "mine.0.5"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_under_a_name_is_loaded_under_it(tmp_path, manager, name):
    trainer = ROOM.trainer(tmp_path / "run")
    trainer.train(1, manager())
    trainer.save_state(tmp_path / name)
    assert load_checkpoint_torchscript(tmp_path / name)["epoch"] == 1
    assert ROOM.trainer(tmp_path / "fresh").update_state(tmp_path / name).state.epoch == 1


def test_names_with_dots_do_not_share_a_program(tmp_path, manager):
    trainer = ROOM.trainer(tmp_path / "run")
    for number in (1, 2):
        trainer.train(number, manager())
        trainer.save_state(tmp_path / f"run.{number}")
    for number in (1, 2):
        assert load_checkpoint_torchscript(tmp_path / f"run.{number}")["epoch"] == number


@pytest.mark.parametrize("name", ["checkpoint_epoch_2", "checkpoint_epoch_2_model.ptj"])
def test_a_run_goes_back_to_a_pair_by_any_of_its_names(tmp_path, manager, name):
    ROOM.trainer(tmp_path, save_freq=1).train(3, manager())
    folder = tmp_path / "checkpoints"
    assert ROOM.trainer(tmp_path, save_freq=1, resume_from=folder / name).state.epoch == 2
    load_checkpoint_torchscript(folder / "checkpoint_last")


# ---- compiled steps


class AfterAnEpoch:
    """Changes the network when the first epoch is over."""

    def __init__(self, change):
        self.change = change

    def at_epoch_end(self, trainer, curr_epoch, **facts):
        if curr_epoch == 1:
            self.change(trainer.module)


def doubles_a_layer(network):
    network.body[0].register_forward_hook(lambda module, inputs, output: 2 * output)


def doubles_everything(network):
    network.forward = lambda x: {"pred": 2 * Net.forward(network, x)["pred"]}


@pytest.mark.parametrize("change", [doubles_a_layer, doubles_everything])
def test_what_comes_after_the_first_step_is_not_ignored(tmp_path, change):
    both = [
        end(build(tmp_path / str(compiled), compile=compiled, callbacks=[AfterAnEpoch(change)]))
        for compiled in (False, FAST)
    ]
    assert_close(both[1], both[0])


class HoldsAScript(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.body = torch.jit.script(torch.nn.Linear(3, 4))
        self.head = torch.nn.Linear(4, 1)

    def forward(self, x):
        return {"pred": self.head(torch.relu(self.body(x)))}


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # PyTorch looks at inputs of what it compiles
def test_a_script_inside_a_network_stays_as_it_is(tmp_path):
    both = [end(build(tmp_path / str(compiled), cls=HoldsAScript, compile=compiled)) for compiled in (False, FAST)]
    assert_close(both[1], both[0])
