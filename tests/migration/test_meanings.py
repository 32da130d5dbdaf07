"""What means otherwise is told where it does, and nowhere else; the changes keep the text around them."""

import pytest

from delira.cli.migrate.meaning import MEANINGS
from delira.cli.migrate.source import Script

IMPORTS = (
    "import numpy as np\nimport torch\n"
    "from delira.data_loading import BaseDataManager, RandomSampler, SequentialSampler\n"
    "from delira.models import AbstractPyTorchNetwork\n"
    "from delira.training import Parameters, PyTorchExperiment, PyTorchNetworkTrainer\n"
)
OF_05 = "from delira.utils import DeliraConfig\n"
TRIAL = "import delira as torchbearer\nfrom delira import Trial\n"
DATA = "data = BaseDataManager(x, 4, sampler_cls=SequentialSampler)\n"
NETWORK = "class Net(AbstractPyTorchNetwork):\n    pass\n\n\n"
TRAINED = "data = BaseDataManager(y, 4, sampler_cls=SequentialSampler)\nPyTorchExperiment(params, Net).run(data)\n"
RUN = DATA + "experiment = PyTorchExperiment(params, Net)\nnetwork = experiment.run(data)\n"


def told(text):
    script = Script(text)
    return [finding for rule in MEANINGS for finding in rule(script)]


def changed(text):
    script = Script(text)
    return script.changed(finding for rule in MEANINGS for finding in rule(script))


@pytest.mark.parametrize(
    "text",
    [
        IMPORTS + RUN,
        # no training, or none of the library's; not the data that are trained on; a sampler for the folds
        IMPORTS + "data = BaseDataManager(x, 4)\nfor batch in data.get_batchgen():\n    print(batch)\n",
        IMPORTS + "class Own(PyTorchNetworkTrainer):\n    def train(self, n, data):\n        pass\n\n\n"
        "data = BaseDataManager(x, 4)\nOwn(Net(), 'folder').train(2, data)\n",
        IMPORTS + RUN + "validation = BaseDataManager(x, 4)\nexperiment.run(data, validation, val_score_key=None)\n",
        IMPORTS + "data = BaseDataManager(x, 4)\nexperiment = PyTorchExperiment(params, Net)\n"
        "experiment.kfold(data, train_kwargs={'sampler': SequentialSampler})\n",
        IMPORTS + "data = BaseDataManager(x, 4, **how)\nPyTorchExperiment(params, Net).run(data)\n",
        # 0.5 drew without replacement, and gave metrics the label first
        IMPORTS + OF_05 + "RandomSampler(5)\n",
        IMPORTS + OF_05 + "experiment = PyTorchExperiment(config, Net)\nexperiment.test(n, d, {'m': lambda a, b: 0})\n",
        IMPORTS + "RandomSampler(5, replacement=True)\nassert isinstance(sampler, RandomSampler)\n",
        "from torch.utils.data import RandomSampler\nRandomSampler(data)\n",
        # a type that keeps its sign, and a network that prepares its batches itself
        IMPORTS + "class Net(AbstractPyTorchNetwork):\n    pass\n\n\n"
        "sample = {'data': x.astype(np.uint8), 'label': y.astype(np.int64), 'name': name}\n",
        IMPORTS + "class Net(AbstractPyTorchNetwork):\n    def prepare_batch(batch, a, b):\n        pass\n\n\n"
        "sample = {'data': x, 'label': y.astype('uint8')}\n",
        # names that tell, or keys that are given
        IMPORTS + "experiment = PyTorchExperiment(params, Net)\n"
        "experiment.test(n, d, {'m': lambda a, pred: 0, 'n': accuracy, 'o': lambda a: 0})\n"
        "experiment.test(n, d, {'m': lambda a, b: 0}, metric_keys={'m': ('label', 'pred')})\n",
        IMPORTS + "settings = {'losses': {}, 'metric_keys': {'m': ('label', 'pred')}, 'val_metrics': {'m': m}}\n"
        "m = lambda a, b: 0\nPyTorchExperiment(settings, Net).test(n, d, {'m': m})\n",
        # no validation, and a score whose direction is the old one, or said, or not known
        IMPORTS + RUN + "settings = {'losses': {}, 'val_metrics': {'mae': f}}\n"
        "experiment.kfold(data, val_split=None)\n",
        IMPORTS + DATA + "settings = {'losses': {}, 'val_metrics': {'mae': f, 'auc': f}}\n"
        "PyTorchExperiment(settings, Net, val_score_key='mae').run(data, data)\n",
        IMPORTS + DATA + "settings = {'losses': {'dice': f}, 'val_metrics': {'auc': f}}\n"
        "PyTorchExperiment(settings, Net, val_score_key='dice').run(data, data)\n",
        IMPORTS + DATA + "settings = {'losses': {}, 'val_metrics': {'auc': f}}\n"
        "PyTorchExperiment(settings, Net, val_score_key='auc').run(data, data, val_score_mode='highest')\n",
        IMPORTS + DATA + "trainer = PyTorchNetworkTrainer(net, 'folder', val_metrics={'auc': f})\n"
        "trainer.train(2, data, data, 'auc')\n",
        IMPORTS + DATA + "trainer = PyTorchNetworkTrainer(net, 'folder', val_metrics={'mae': f})\n"
        "trainer.train(2, data, data, 'mae', 'lowest')\n",
        # one value is enough, or there is one for each sample
        IMPORTS + "from delira.metrics import per_sample\nexperiment = PyTorchExperiment(params, Net)\n"
        "outputs, metrics = experiment.test(n, d, {'m': per_sample(f), 'n': f})\n"
        "print(np.std(metrics['m']), np.mean(metrics['n']), metrics['n'])\n",
        # a seed of a function that is called elsewhere, of a trainer, and one that is told
        IMPORTS + "def sow(number):\n    torch.manual_seed(number)\n\n\n" + RUN,
        IMPORTS + "torch.manual_seed(0)\nPyTorchNetworkTrainer(net, 'folder').train(2, loader)\n",
        IMPORTS + "torch.manual_seed(0)\nPyTorchExperiment(params, Net, seed=0)\n",
        IMPORTS + "torch.manual_seed(0)\nexperiment = PyTorchExperiment(params, Net)\n"
        "experiment.kfold(loader, random_seed=3)\n",
        # a trainer for each training
        IMPORTS + "for number in range(3):\n    trainer = PyTorchNetworkTrainer(net, 'folder')\n"
        "    trainer.train(2, loader)\n",
        IMPORTS + DATA + "seen = Seen()\nPyTorchNetworkTrainer(net, 'folder', callbacks=[seen]).train(2, data)\n"
        "print(seen.values)\n",
        IMPORTS + RUN + "kept = Kept()\nexperiment.run(data, callbacks=[Seen(kept)])\nprint(kept.values)\n",
        # trials
        TRIAL + "trial = Trial(model, metrics=['loss'])\ntrial.evaluate(data_key=torchbearer.TEST_DATA)\n",
        TRIAL + "trial = Trial(model, metrics=['loss'])\nhistory = trial.run(2)\nprint(history)\n"
        "print(trial.evaluate(data_key=torchbearer.TEST_DATA))\n",
        TRIAL + "trial = Trial(model, metrics=['loss'])\nhistory = trial.run(2)\ntrial.evaluate()\n"
        "trial.evaluate(data_key=torchbearer.TEST_DATA, to_history=True)\nprint(history[0]['epoch'])\ntrial.run(4)\n",
        TRIAL + "KEY = torchbearer.state_key('key')\ntrial = Trial(model, metrics=[KEY])\n"
        "history = trial.run(2)\nprint(history[0][KEY])\n",
    ],
)  # fmt: skip
def test_nothing_is_told_where_nothing_means_otherwise(text):
    assert told(text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("whole = BaseDataManager(x, (4),  # (batch)\n)\npart = whole.get_subset(range(9))\n"
         "PyTorchExperiment(params, Net).run(part)\n",
         "whole = BaseDataManager(x, (4), sampler_cls=SequentialSampler  # (batch)\n)\n"
         "part = whole.get_subset(range(9))\nPyTorchExperiment(params, Net).run(part)\n"),
        # two changes of one place, one after the other
        ("torch.manual_seed(7)\nparams = {'losses': {}, 'val_metrics': {'mae': f}}\n"
         "experiment = PyTorchExperiment(\n    params,\n    Net,\n)\nexperiment.run(loader, loader)\n",
         "torch.manual_seed(7)\nparams = {'losses': {}, 'val_metrics': {'mae': f}}\n"
         "experiment = PyTorchExperiment(\n    params,\n"
         "    Net, val_score_key=\"mae\", val_score_mode=\"lowest\", seed=7\n)\nexperiment.run(loader, loader)\n"),
        ("data = BaseDataManager(x, 4)\nPyTorchExperiment(params, Net).kfold(3, data)\n",
         f"{DATA}PyTorchExperiment(params, Net).kfold(3, data)\n"),
        (NETWORK + "y = {'data': x, 'y': np.zeros(4, dtype='uint8')}\n" + TRAINED,
         NETWORK + "y = {'data': x, 'y': np.zeros(4, dtype=\"float32\")}\n" + TRAINED),
        ("params = {'losses': {}, 'val_metrics': {'q': f}}\nexperiment = PyTorchExperiment(params, Net)\n"
         "experiment.resume('folder', loader, loader)\n",
         "params = {'losses': {}, 'val_metrics': {'q': f}}\n"
         "experiment = PyTorchExperiment(params, Net, val_score_key=\"q\", val_score_mode=\"lowest\")\n"
         "experiment.resume('folder', loader, loader)\n"),
        ("params = {'losses': {}, 'val_score_key': 'val_f1', 'val_metrics': {'f1': f1_loss}}\n"
         "experiment = PyTorchExperiment(params, Net)\nexperiment.run(loader, loader)\n",
         "params = {'losses': {}, 'val_score_key': 'val_f1', 'val_metrics': {'f1': f1_loss}}\n"
         "experiment = PyTorchExperiment(params, Net, val_score_mode=\"lowest\")\nexperiment.run(loader, loader)\n"),
        ("from delira.training.callbacks import ReduceLROnPlateauCallbackPyTorch\n"
         "trainer = PyTorchNetworkTrainer(net, 'folder', lr_scheduler_cls=ReduceLROnPlateauCallbackPyTorch)\n"
         "trainer.train(2, loader, loader, 'auc', 'highest')\n",
         "from delira.training.callbacks import ReduceLROnPlateauCallbackPyTorch\n"
         "trainer = PyTorchNetworkTrainer(net, 'folder', lr_scheduler_cls=ReduceLROnPlateauCallbackPyTorch, "
         "lr_scheduler_params={\"mode\": \"min\"})\ntrainer.train(2, loader, loader, 'auc', 'highest')\n"),
        ("from sklearn.metrics import accuracy_score\nfrom delira.metrics import per_sample\n"
         "experiment = PyTorchExperiment(params, Net)\n"
         "outputs, metrics = experiment.test(n, d, {'m': accuracy_score, 'n': lambda pred, y: 0})\n"
         "print(len(metrics['m']), metrics['n'].std())\n",
         "from sklearn.metrics import accuracy_score\nfrom delira.metrics import per_sample\n"
         "experiment = PyTorchExperiment(params, Net)\n"
         "outputs, metrics = experiment.test(n, d, "
         "{'m': per_sample(lambda y_true, y_pred: accuracy_score(y_true[None], y_pred[None])), "
         "'n': per_sample(lambda pred, y: (lambda pred, y: 0)(pred[None], y[None]))})\n"
         "print(len(metrics['m']), metrics['n'].std())\n"),
        ("def go():\n    seen = Seen()\n    experiment = PyTorchExperiment(params, Net, callbacks=[seen])\n"
         "    experiment.run(\n        loader\n    )  # go\n    print(seen.values)\n",
         "def go():\n    seen = Seen()\n    experiment = PyTorchExperiment(params, Net, callbacks=[seen])\n"
         "    experiment.run(\n        loader\n    )  # go\n"
         "    seen = next(one for one in experiment.last_trainer.callbacks if isinstance(one, Seen))\n"
         "    print(seen.values)\n"),
    ],
)  # fmt: skip
def test_a_change_keeps_the_text_around_it(before, after):
    assert changed(changed(IMPORTS + before)) == IMPORTS + after
    assert told(IMPORTS + after) == []


def test_a_sampler_is_replaced_wherever_it_is_named():
    text = (
        "import delira.data_loading as loading\nfrom delira.data_loading import RandomSampler\n"
        "loading.BaseDataManager(x, 4, 0, None, loading.RandomSampler)\n"
        "manager.update_state_from_dict({'sampler': RandomSampler})\nRandomSampler.from_dataset(dataset)\n"
    )
    assert changed(text) == (
        "import delira.data_loading as loading\nfrom delira.data_loading import RandomSamplerWithReplacement\n"
        "loading.BaseDataManager(x, 4, 0, None, loading.RandomSamplerWithReplacement)\n"
        "manager.update_state_from_dict({'sampler': RandomSamplerWithReplacement})\n"
        "RandomSamplerWithReplacement.from_dataset(dataset)\n"
    )


def test_an_entry_of_a_record_is_found_by_the_text_of_its_key():
    text = (
        TRIAL + "KEY = torchbearer.state_key('key')\ntrial = Trial(model, metrics=[KEY]).with_val_generator(loader)\n"
        "history = trial.run(2)\nfor record in history:\n    print(record['key'], record['loss'])\n"
    )
    assert changed(text) == text.replace("record['key']", 'record["val_key"]')


def test_a_callback_of_another_function_is_only_told():
    text = IMPORTS + (
        "seen = Seen()\n\n\ndef go():\n    experiment = PyTorchExperiment(params, Net)\n"
        "    experiment.run(loader, callbacks=[seen])\n    print(seen.values)\n"
    )
    (finding,) = told(text)
    assert "copies" in finding.why
    assert finding.edits == ()
