"""What means otherwise is told where it does, and nowhere else; the changes keep the text around them."""

import time

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


EXPERIMENT = IMPORTS + "experiment = PyTorchExperiment(params, Net)\n"
TRAINER = IMPORTS + "trainer = PyTorchNetworkTrainer(net, 'folder')\n"
WITH_NETWORK = IMPORTS + NETWORK
FIRST = "first = PyTorchExperiment({'val_metrics': {'apart': f}}, Net)\nfirst.run(data, data)\n"


@pytest.mark.parametrize(
    "text",
    [
        # the settings of another experiment, or those that nobody knows
        FIRST.replace("{'val_metrics': {'apart': f}}", "settings"),
        "p = {'val_metrics': {'q': f}}\np['val_score_key'] = 'q'\nPyTorchExperiment(p, Net).run(data, data)\n",
        "p = {'val_metrics': {'q': f}}\nPyTorchExperiment(p, Net, **more).run(data, data)\n",
        "PyTorchExperiment({'val_metrics': {'mae': accuracy}}, Net).run(data, data)\n",
        "p = {'val_metrics': {'q': f, **more}}\nPyTorchExperiment(p, Net).run(data, data)\n",
        "PyTorchExperiment({'val_metrics': {'q': f}}, Net).run(data)\n"
        "PyTorchExperiment({'losses': {}}, Net).run(data, data)\n",
        "p = {'val_metrics': {'q': f}}\nPyTorchExperiment(p, Net, **{'val_score_key': None}).run(data, data)\n",
        "class Own(PyTorchExperiment):\n    def __init__(self, params, cls):\n        pass\n\n\n"
        "Own({'val_metrics': {'q': f}}, Net).run(data, data)\n",
        # the old choice was the worst epoch
        "PyTorchExperiment({'val_metrics': {'accuracy': f}}, Net).run(data, data)\n",
        "PyTorchExperiment({'val_metrics': {'dice': f}}, Net, val_score_key='dice').run(data, data)\n",
        "trainer = PyTorchNetworkTrainer(net, 'folder', val_metrics={'mae': f})\ntrainer.train(2, data, data, 'mae')\n",
        "from delira.training.callbacks import ReduceLROnPlateauCallbackPyTorch as Plateau\n"
        "PyTorchExperiment({'val_metrics': {'auc': f}, 'val_score_key': 'auc'}, Net).run(data, data)\n"
        "PyTorchExperiment({'lr_sched_cls': Plateau, 'losses': {'l': f}}, Net, val_score_key='l').run(data, data)\n",
        "from delira.training.callbacks import ReduceLROnPlateauCallbackPyTorch as Plateau\n"
        "p = {'lr_sched_cls': Plateau, 'losses': {'l': f}, 'val_metrics': {'auc': f}}\n"
        "PyTorchExperiment(p, Net, val_score_key='l').run(data, data)\n"
        "PyTorchExperiment(p, Net, val_score_key='auc').run(data, data)\n",
    ],
)
def test_an_experiment_has_its_own_settings(text):
    assert told(IMPORTS + text) == []


def test_each_experiment_gets_its_own_score():
    second = FIRST.replace("first", "second").replace("apart", "dist")
    score = 'Net, val_score_key="{}", val_score_mode="lowest")'
    text = IMPORTS + FIRST + second
    expected = IMPORTS + FIRST.replace("Net)", score.format("apart")) + second.replace("Net)", score.format("dist"))
    assert changed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        # saved, not trained on
        "sample = {'data': x, 'mask': y.astype(np.uint8)}\nnp.savez('file', **sample)\n",
        "data = BaseDataManager({'data': x, 'mask': y.astype(np.uint8)}, 4, sampler_cls=SequentialSampler)\n",
    ],
)
def test_bytes_that_no_network_gets_are_left_alone(text):
    assert told(WITH_NETWORK + text) == []


def test_bytes_are_found_in_samples_of_a_class_and_told_where_they_are_used_elsewhere():
    dataset = (
        "from delira.data_loading import AbstractDataset\n\n\nclass Own(AbstractDataset):\n"
        "    def __getitem__(self, index):\n        return {'data': 0, 'y': np.zeros(1, np.uint8)}\n\n\n"
    )
    text = WITH_NETWORK + dataset + TRAINED.replace("(y,", "(Own(),")
    assert changed(text) == text.replace("uint8", "float32")
    both = WITH_NETWORK + "y = {'data': x, 'y': x.astype(np.uint8)}\n" + TRAINED + "BaseDataManager(y, 2)\n"
    assert changed(both) == both.replace("uint8", "float32")
    both = WITH_NETWORK + "y = {'data': x, 'y': x.astype(np.uint8)}\n" + TRAINED + "np.savez('file', **y)\n"
    assert [finding.edits for finding in told(both)] == [()]


@pytest.mark.parametrize(
    ("epochs", "after"),
    [("more or 2", "trainer.state.epoch + (more or 2)"), ("n if n else 3", "trainer.state.epoch + (n if n else 3)"),
     ("trainer.state.epoch + n", "trainer.state.epoch + n"), ("f(2)", "trainer.state.epoch + f(2)")],
)  # fmt: skip
def test_epochs_more_are_one_part_of_a_sum(epochs, after):
    text = TRAINER + "trainer.train(2, data)\ntrainer.train({}, data)\n"
    assert changed(text.format(epochs)) == text.format(after)


@pytest.mark.parametrize(
    "text",
    [
        "if fast:\n    trainer.train(2, data)\nelif more:\n    trainer.train(3, data)\n"
        "else:\n    trainer.train(5, data)\n",
        "trainer.train(2, data) if fast else trainer.train(5, data)\n",
        "match how:\n    case 1:\n        trainer.train(2, data)\n    case _:\n        trainer.train(5, data)\n",
        "def go():\n    trainer = PyTorchNetworkTrainer(net, 'folder')\n    if fast:\n"
        "        trainer.train(2, data)\n        return\n    trainer.train(5, data)\n",
        "while more():\n    total = trainer.state.epoch + 2\n    trainer.train(total, data)\n",
        "class Own(PyTorchNetworkTrainer):\n    def train(self, steps, data):\n        pass\n\n\n"
        "own = Own(net, 'folder')\nown.train(2, data)\nown.train(2, data)\n",
    ],
)
def test_only_one_training_is_no_second_one(text):
    assert told(TRAINER + text) == []


def test_epochs_that_do_not_begin_with_1_are_only_told():
    text = TRAINER.replace("'folder'", "'folder', start_epoch=2") + 2 * "trainer.train(2, data)\n"
    assert [finding.edits for finding in told(text)] == [()]


SOWN = "torch.manual_seed({})\nexperiment = PyTorchExperiment(params, Net{})\nexperiment.run(loader)\n"


@pytest.mark.parametrize(
    "text",
    [
        SOWN.format(1, ", **settings"),
        "settings = {'seed': 4}\n" + SOWN.format(1, ", **settings"),
        "params = {'losses': {}, 'training': {'seed': 4}}\n" + SOWN.format(1, ""),
        "if fast:\n    torch.manual_seed(1)\nelse:\n    experiment = PyTorchExperiment(params, Net)\n"
        "    experiment.run(loader)\n",
    ],
)
def test_a_seed_that_is_told_is_left_alone(text):
    assert told(IMPORTS + text) == []


@pytest.mark.parametrize(
    "text",
    [
        SOWN.format("random.randint(0, 100)", ""),
        SOWN.format("options.seed", ""),
        "options = read()\n" + SOWN.format("options.seed", "") + "options.seed = 3\n",
        "options = read()\noptions = other(options)\n" + SOWN.format("options.seed", ""),
        SOWN.format("options.seed", "").replace("experiment.run", "options = read()\nexperiment.run"),
        "class A:\n    def go(self):\n        torch.manual_seed(self.seed)\n"
        "        PyTorchExperiment(params, Net).run(loader)\n",
        "number = 3\n" + SOWN.format("number", "").replace("experiment =", "number = 4\nexperiment ="),
        "experiment = PyTorchExperiment(params, Net)\nfor number in (1, 2):\n    torch.manual_seed(number)\n"
        "    experiment.run(loader)\n",
        SOWN.format(1, "") + "torch.manual_seed(2)\nexperiment.run(loader)\n",
        SOWN.format(1, "") + "def go():\n    torch.manual_seed(2)\n    experiment.run(loader)\n",
        "if fast:\n    torch.manual_seed(1)\nexperiment = PyTorchExperiment(params, Net)\nexperiment.run(loader)\n",
    ],
)
def test_a_seed_that_is_not_known_before_is_only_told(text):
    assert [finding.edits for finding in told(IMPORTS + text)] == [()]


def test_a_seed_of_options_that_stay_goes_into_the_experiment():
    text = IMPORTS + "options = read()\n" + SOWN.format("options.seed", "{}")
    assert changed(text.format("")) == text.format(", seed=options.seed")


def test_a_seed_goes_into_an_experiment_within_an_expression():
    text = IMPORTS + "torch.manual_seed(1)\n(experiment := PyTorchExperiment(params, Net{})).run(loader)\n"
    assert changed(text.format("")) == text.format(", seed=1")


def test_the_last_seed_before_a_run_is_taken():
    text = IMPORTS + SOWN.format(1, "{}").replace("experiment.run", "torch.manual_seed(5)\nexperiment.run")
    assert changed(text.format("")) == text.format(", seed=5")


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("if fast: experiment.run(loader, callbacks=[seen])", "if fast: experiment.run(loader, callbacks=[seen]); {}"),
        ("if fast:\n    experiment.run(loader, callbacks=[seen])",
         "if fast:\n    experiment.run(loader, callbacks=[seen])\n    {}"),
        ("net = experiment.run(loader, callbacks=[seen]); use(net)",
         "net = experiment.run(loader, callbacks=[seen]); {}; use(net)"),
        ("net = experiment.run(loader, callbacks=[seen]) if fast else None", None),
        ("experiment.run(loader, callbacks=[seen, Seen()])", None),
    ],
)  # fmt: skip
def test_a_callback_is_taken_in_the_block_of_the_run(line, after):
    text = EXPERIMENT + "seen = Seen()\n{}\nprint(seen.values)\n"
    taken = "seen = next(one for one in experiment.last_trainer.callbacks if isinstance(one, Seen))"
    assert len(told(text.format(line))) == 1
    assert changed(text.format(line)) == text.format(line if after is None else after.format(taken))


def test_metrics_of_a_validation_stay_as_they_are():
    text = IMPORTS + (
        "from delira.metrics import per_sample\n\n\ndef far(y_true, y_pred):\n    pass\n\n\n"
        "metrics = {'far': far, 'n': far}\n"
        "p = {'losses': {}, 'val_metrics': metrics, 'val_score_key': 'far', 'val_score_mode': 'lowest'}\n"
        "experiment = PyTorchExperiment(p, Net)\noutputs, values = experiment.test(net, data, METRICS)\n"
        "print(np.std(values['far']), values['n'].std())\n"
    )
    one = "per_sample(lambda y_true, y_pred: far(y_true[None], y_pred[None]))"
    after = text.replace("METRICS", f'{{**metrics, "far": {one}, "n": {one}}}')
    assert changed(changed(text.replace("METRICS", "metrics"))) == after
    assert told(after) == []


@pytest.mark.parametrize(
    "text",
    [
        "print(max(values, key=lambda fold: values[fold]['m'].mean()))\n",
        "print(np.std([values[fold]['m'].mean() for fold in values]), max(values['m'].mean(), 0))\n",
        "def other(values):\n    print(np.std(values['m']))\n",
        "outputs, values = 1, {'m': x}\nprint(np.std(values['m']))\n",
    ],
)
def test_one_number_of_a_test_is_no_spread(text):
    assert told(EXPERIMENT + "outputs, values = experiment.kfold(data, {'m': f})\n" + text) == []


RAN = TRIAL + "trial = Trial(model, metrics=['epoch'])\nhistory = trial.run(2)\n"


@pytest.mark.parametrize(
    "text",
    [
        RAN + "def keras(net):\n    history = net.fit()\n    print(history[0]['epoch'])\n",
        RAN + "for row in history:\n    pass\nfor row in rows:\n    print(row['epoch'])\n",
        RAN + "history = [{'epoch': 0}]\nprint(history[0]['epoch'])\n",
        RAN + "first, *history = rows\nprint(history[0]['epoch'])\n",
        TRIAL + "trial = Trial(model, metrics=['epoch'])\nhistory = net.fit()\nif fast:\n    history = trial.run(2)\n"
        "print(history[0]['epoch'])\n",
        RAN + "def more():\n    trial.run(4)\n\n\nmore()\nprint(history)\n",
        RAN + "def other():\n    trial = Trial(model)\n    trial.run(2)\n\n\nprint(history)\n",
        RAN + "trial = Trial(model)\ntrial.run(2)\nprint(history)\n",
        RAN + "def other():\n    trial = Trial(model)\n    history = trial.run(2)\n    print(history[0]['epoch'])\n",
        RAN + "trial.evaluate(data_key=torchbearer.TEST_DATA)\nprint(model.state_dict(), other.history)\n",
        RAN + "trial.evaluate(data_key=torchbearer.TEST_DATA)\nhistory = net.fit()\nprint(history)\n",
    ],
)
def test_a_name_of_something_else_is_no_history(text):
    assert told(text) == []


@pytest.mark.parametrize("line", ["trial.state_dict()", "trial.state[torchbearer.HISTORY]", "print(history)"])
def test_an_evaluation_that_is_looked_at_in_the_history_goes_there(line):
    text = RAN + "trial.evaluate(data_key=torchbearer.TEST_DATA{})\n" + line + "\n"
    assert changed(text.format("")) == text.format(", to_history=True")


@pytest.mark.parametrize(
    ("body", "tells"),
    [("np.abs(a - b).mean()", False), ("((a - b) ** 2).mean()", False), ("(a == b).mean()", False),
     ("a == b", False), ("(a - b).abs().mean()", False),
     ("(a - b).mean()", True), ("(a * b).sum()", False), ("np.abs(a - b) / a", True), ("(a - b) ** 3", True),
     ("np.abs(a - 2 * b)", True), ("(a > b).mean()", True)],
)  # fmt: skip
def test_a_metric_in_which_both_are_alike_is_not_told(body, tells):
    assert len(told(EXPERIMENT + f"experiment.test(net, data, {{'m': lambda a, b: {body}}})\n")) == tells


def test_a_name_of_05_is_found_by_its_module():
    text = "import delira.data_loading as dl\nfrom delira.data_loading import RandomSampler\n"
    assert told(text + "dl.DataManager(x, 4, sampler_cls=RandomSampler)\n") == []


def test_objects_that_are_attributes_and_pairs_are_followed():
    text = IMPORTS + (
        "class Go:\n    def __init__(self):\n        self.data, self.other = BaseDataManager(x, 4), 1\n"
        "        self.trainer: PyTorchNetworkTrainer = PyTorchNetworkTrainer(net, 'folder')\n\n"
        "    def go(self):\n        self.trainer.train(1, self.data)\n        self.trainer.train(1, self.data)\n"
    )
    after = text.replace("(x, 4)", "(x, 4, sampler_cls=SequentialSampler)")
    first, _, last = after.rpartition("train(1")
    assert changed(text) == f"{first}train(self.trainer.state.epoch + 1{last}"


def test_a_long_script_is_read_in_a_moment():
    part = RAN.removeprefix(TRIAL) + (
        "trial.run(4)\ntrial.evaluate(data_key=torchbearer.TEST_DATA)\nprint(history[0]['epoch'])\n"
        + SOWN.format(1, "") + DATA + "trainer = PyTorchNetworkTrainer(net, 'folder')\ntrainer.train(2, data)\n"
    )  # fmt: skip
    parts = [part.replace("trial", f"trial{number}").replace("torchbearer", "tb") for number in range(250)]
    begin = time.perf_counter()
    assert len(told(IMPORTS + TRIAL.replace("torchbearer", "tb") + "".join(parts))) == 250 * 4
    assert time.perf_counter() - begin < 20  # it was minutes
