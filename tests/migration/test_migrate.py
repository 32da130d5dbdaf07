"""``delira migrate`` changes the lines of old scripts that need it, and nothing else."""

import json
import re
import runpy
import time
from pathlib import Path

import pytest

from delira.cli.main import main
from delira.cli.migrate import findings, migrated
from delira.cli.migrate.refused import REFUSED
from delira.cli.migrate.source import Script
from delira.compat.names import GONE
from delira.errors import DeliraError

HERE = Path(__file__).parent
CASES = sorted((HERE / "refused").glob("*.py"))
RUNNING = sorted((HERE / "scripts").glob("*.py"))
#: what scripts need besides numpy and scikit-learn
PACKAGES = ("torch", "tensorflow", "keras", "flax", "pandas", "SimpleITK", "skimage", "tensorboardX")
#: what the lines end with that need a change
MARKS = ("# refused", "# means otherwise")
#: scripts that cross-validate several times, or build a large network
SLOW = ("arguments_by_place", "resnet_of_keras", "stratified_kfold")
PARAMETERS = [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW)) for path in CASES]


def text_of(path):
    return path.read_text(encoding="utf-8")


def need(text):
    for package in PACKAGES:
        if re.search(rf"^(import|from) {package}\b", text, re.MULTILINE):
            pytest.importorskip(package, reason=f"the script needs the package {package!r}")


def marked(text):
    """Line and kind of every line that a script says to need a change."""
    lines = enumerate(text.splitlines(), 1)
    return {(number, line.rpartition("# ")[2]) for number, line in lines if line.endswith(MARKS)}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_lines_of_a_script_that_need_a_change_are_found_and_no_others(path):
    script = Script(text_of(path))
    found = findings(script)
    assert {(finding.line, finding.kind) for finding in found} == marked(script.text)
    assert 1 <= len(marked(script.text)) <= 5
    assert all(finding.why and script.shown(finding) for finding in found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", PARAMETERS)
def test_a_script_runs_and_gives_its_numbers_once_it_is_changed(path, tmp_path, monkeypatch, capsys):
    text = text_of(path)
    need(text)
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(text, encoding="utf-8")
    if any(kind == "refused" for _, kind in marked(text)):
        with pytest.raises((ImportError, DeliraError, AttributeError, TypeError, RuntimeError), match=r"\w"):
            runpy.run_path(str(script), run_name="__main__")
    assert main(["migrate", str(script)]) == 1
    assert script.read_text(encoding="utf-8") == text
    assert main(["migrate", str(script), "--write"]) == 0, capsys.readouterr().out
    runpy.run_path(str(script), run_name="__main__")
    changed = script.read_bytes()
    assert findings(Script(changed.decode())) == []
    assert main(["migrate", str(script), "--write"]) == 0
    assert script.read_bytes() == changed


@pytest.mark.parametrize("path", RUNNING, ids=lambda path: path.stem)
def test_of_a_script_that_runs_nothing_is_refused(path):
    assert [finding for finding in findings(Script(text_of(path))) if finding.kind == "refused"] == []


@pytest.mark.parametrize("name", sorted({name for names in GONE.values() for name in names}))
def test_every_name_that_is_gone_is_in_a_script(name):
    assert any(re.search(rf"\b{name}\b", text_of(path)) for path in CASES)


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torchbearer as tb, sys\n", "import delira as tb, sys\n"),
        ("from torchbearer . callbacks import *\n", "from delira.callbacks import *\n"),
        ("from torchbearer.\\\n    callbacks import Best\n", "from delira.callbacks import Best\n"),
        ("from torchbearer import *\nTrial(a, pass_state=True)\n", "from delira import *\nTrial(a)\n"),
        ("from delira.models import *\nf(DataParallelPyTorchNetwork(n))\n", "from delira.models import *\nf(n)\n"),
        ("import a, torchbearer.b, torchbearer  #\n", "import a, delira as torchbearer, delira as torchbearer  #\n"),
        ("from torchbearer import Trial as T\n", "from delira import Trial as T\n"),
        ("def f():\n    import torchbearer\n    f()\n", "def f():\n    import delira as torchbearer\n    f()\n"),
        ("x = 1; from torchbearer import Trial; y = 2\n", "x = 1; from delira import Trial; y = 2\n"),
        (
            "from delira.models import DataParallelPyTorchNetwork as P  # GPUs\n# comment\nnet = P(P((net)))  # two\n",
            "# comment\nnet = net  # two\n",
        ),
        (
            "import delira.models as m\nnet = m.DataParallelPyTorchNetwork(module=a if b else c)\n",
            "net = (a if b else c)\n",
        ),
        (
            "def f(s):\n    from delira.training.train_utils import initialize_uninitialized as i\n    i(s)\n    g()\n",
            "def f(s):\n    g()\n",
        ),
        (
            "import delira as d\nclass C(d.Callback):\n def at_iter_end(s, t):\n  if f: return dict(a=1)\n  else: g\n",
            "import delira as d\nclass C(d.Callback):\n def at_iter_end(s, t):\n  if f: t.a = 1; return\n  else: g\n",
        ),
        (
            "from delira.logging import Logger, log\nx = Logger((own))\n",
            'from delira.logging import log, MessageLogger\nx = MessageLogger("log", [own])\n',
        ),
    ],
)  # fmt: skip
def test_names_are_changed_where_they_are_used(before, after):
    assert migrated(Script(before)) == after


@pytest.mark.parametrize(
    "text",
    [
        "from delira.training import TfExperiment as E\nclass F(E):\n    def run(self, own): ...\nF(1, 2).run(own=3)\n",
        "def sitk_resample_to_image(a):\n    return a\n\n\nsitk_resample_to_image(1)\n",
        "from other import scale_loss, Trial\nscale_loss(1, 2)\nTrial(pass_state=True)\n",
        "from .delira import scale_loss\nfrom . import torchbearer\n",
        "try:\n    import torchbearer\nexcept ImportError:\n    torchbearer = None\n",
        "class Own:\n    def at_epoch_end(self, trainer):\n        return {'stop_training': True}\n",
        "import delira\nimport delira.utils\n'torchbearer.Trial'\n# import torchbearer\n",
        "from delira import *\nclass Trial: pass\nTrial(pass_state=True)\nfrom delira.callbacks import *\n"
        "ModelCheckpoint('m', monitor='val_off', save_best_only=False)\n",
    ],
)
def test_other_names_are_left_alone(text):
    assert findings(Script(text)) == []
    assert migrated(Script(text)) == text


_WANTED = "from delira.training import Parameters, PyTorchExperiment as E, PyTorchNetworkTrainer as T\n"


@pytest.mark.parametrize(
    "text",
    [
        # the class of a schedule stands elsewhere
        'p = Parameters({"training": {"lr_sched_params": {"a": 1}}}, {"training": {"lr_sched_cls": s}})\nE(p, m)\n',
        'e = E(p, m)\ne.run(d, lr_sched_params={"a": 1})\np.fixed.training.lr_sched_cls = f()\n',
        'p = Parameters({"training": {"lr_sched_cls": None, "lr_sched_params": {"a": 1}}})\nE(p, m)\n'
        'p["fixed.training.lr_sched_cls"] = f()\n',
        'T(n, "t", {}, o, {}, {}, {}, s, lr_scheduler_params={"a": 1})\n',
        'import yaml\nT(n, "t", **yaml.load(f), lr_scheduler_params={"a": 1})\n',
        "from delira.callbacks import *\nfrom torch.optim.lr_scheduler import *\nStepLR(o, last_epoch=-1)\n",
        "import torch\nfrom delira.data_loading import *\na = torch.nn.BCELoss(), torch.nn.CrossEntropyLoss()\n"
        "DataManager({'data': x, 'label': np.zeros(4, int)})\nDataManager({'data': x, 'label': y.astype('int')})\n",
        # no callbacks of delira
        "class Meter:\n    def at_epoch_end(self, total):\n        return {'n': 3}\n",
        "from keras.callbacks import Callback\nclass C(Callback):\n    def at_epoch_end(self, b): return {'n': 3}\n",
        # names of other scopes, and of other branches
        "from delira import Callback\nclass C(Callback):\n def at_epoch_end(self, t):\n  r = super().f(t)\n  return r\n"
        "def g():\n r = {'lr': 3}\n return r\n",
        "from delira import Callback\nclass C(Callback):\n def at_epoch_end(self, t):\n  r = {}\n  if t: r = {'a': 3}\n"
        "  return r\n",
        "def f(E):\n    E(p, m, foo=2)\n    e = 1\n    e.run(foo=2)\ne = E(p)\n",
        "for r in s:\n    e.run(foo=2)\n    e = E(p)\ne = 2\n",
        # functions that return one thing or another, or the next of many
        "def f():\n    if a: return 1\n    return E(p)\nf().run(foo=2)\n",
        "def f():\n    yield\n    return E(p)\nf().run(foo=2)\n",
        "@other\ndef f():\n    return E(p)\nf().run(foo=2)\n",
        "def f():\n    return f()\nf().run(foo=2)\n",
        # no configuration, and what no callback returns
        "c.fixed_params = {'training': {'foo': 2}}\n",
        "from delira import Callback\nclass C(Callback):\n def at_epoch_end(self, t):\n  r = {}\n  if t: r = f(a=1)\n"
        "  r['b'] = 2\n  return f(a=1)\n",
    ],
)
def test_what_is_not_sure_is_not_told(text):
    assert findings(Script(_WANTED + text)) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("from torchbearer import Trial, X, Y, Z\n", 2),
        ("from delira.training import *\ntr = PyTorchNetworkTrainer(n, own=1)\n", 3),
        ("from torch.optim import *\nfrom delira.callbacks import *\nBest('a', pickle_module=p)\n", 4),
        ("class C:\n def at_epoch_end(self, t): return {'n': 3}\nE(p, m).run(d, callbacks=[C()])\n", 3),
        ("class C:\n def at_epoch_end(self, t): return {'n': 3}\nc = C()\nt = T(n)\nt.register_callback(c)\n", 3),
        (
            "import torch\nfrom delira.data_loading import *\nf = torch.nn.BCELoss()\ny = np.zeros((4, 1), dtype=int)\n"
            "BaseDataManager({'data': x, 'label': y})\n",
            6,
        ),
        (
            "import torch\nfrom delira.data_loading import *\nf = torch.nn.BCELoss()\ny = np.array([[0], [1]])\n"
            "BaseDataManager({'data': x, 'label': y})\nBaseDataManager({'data': x, 'label': np.array([[0.5]])})\n",
            6,
        ),
        ("from delira.training import DeliraConfig as C\nE(C(fixed_training={'own': 1}), m)\n", 3),
        (
            "def d(a, b): ...\nm = {'d': d}\nE(p, m, val_score_key='d', val_score_mode='lowest')\n"
            "E(p, m, val_score_key='d')\n",
            5,
        ),
        ("import delira.callbacks as c\nc.StepLR(2, 0.1, -1)\nc.LambdaLR(f, 1)\n", 3),
        (
            "import delira\nclass C(delira.Callback):\n def at_epoch_end(self, t): return {'a': 1} if f() else {}\n",
            4,
        ),
        ("k = dict(logdir='a')\nT(n, logging_kwargs=k)\n", 2),
        ("def f():\n training = []\ntraining = {'own': 1}\nE(Parameters({'training': training}), m)\n", 4),
        ("e = 1\ne = E(p)\nwith f():\n    e.run(foo=2)\ne = 3\n", 5),
        ("e = 1\nfor p in s:\n    e = E(p)\ne.run(foo=2)\n", 5),
        (
            "class A(E):\n    def run(self): ...\nclass B(A): ...\nB(p).run(foo=2)\nT(n, foo=2)\n",
            6,
        ),
        ("def f():\n    e = E(p)\n    return e\nf().run(foo=2)\n", 5),
        ("from delira.utils import DeliraConfig as C\nE(C(fixed_training={'own': 1}, fixed_model={}), m)\n", 3),
        ("from delira.utils import DeliraConfig\nc = DeliraConfig()\nc.variable_training = {'foo': 2}\nE(c, m)\n", 4),
    ],
)
def test_what_is_sure_is_told(text, line):
    assert [one.line for one in findings(Script(_WANTED + text))] == [line]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("d = {}\n  d['a'] = 1\n  return d", ['t.a = d["a"]', "return"]),
        ("if t:\n   d = dict(a=1)\n   d['stop_training'] = t\n   return d",
         ['t.a = d["a"]', 'return {"stop_training": d["stop_training"]}']),
        ("d = {}\n  if t: d['a'] = 1\n  return d", []),
        ("d = {}\n  for d['a'] in t: pass\n  return d", []),
        ("d = {}\n  d['a'] = 1\n  d.update(t.more)\n  return d", []),
        ("d = {'a': 1}\n  del d['a']\n  return d", []),
        ("return {**kwargs, 'a': 1}", []),
        ("return dict(kwargs, a=1)", []),
    ],
)  # fmt: skip
def test_returned_entries_are_set_where_all_are_known(body, lines):
    script = Script(
        f"from delira import Callback\nclass C(Callback):\n def at_epoch_end(self, t, **kwargs):\n  {body}\n"
    )
    (finding,) = findings(script)
    assert [line.split(None, 1)[1] for line in script.shown(finding) if line[0] == "+"] == lines


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_ends_of_lines_and_every_character_are_kept(end, mark, tmp_path):
    head, code = "# größer: ☃", "ä = 'ü'; sitk_copy_metadata(ä, ö)  # é"
    lines = [head, "from delira.utils import sitk_copy_metadata, now", "", code, ""]
    script = tmp_path / "größe.py"
    script.write_bytes(f"{mark}{end.join(lines)}".encode())
    assert main(["migrate", str(script), "--write"]) == 0
    text = script.read_bytes().decode()
    assert text.startswith(f"{mark}{head}{end}from delira.utils import now{end}{end}{end}def sitk_copy_metadata(")
    assert text.endswith(f"{end}{end}{code}{end}")
    assert text.count("\n") == text.count(end)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'print(p.fixed.training.own, p["fixed.training.own"])',
            'print(p.fixed.training.extra.own, p["fixed.training.extra.own"])',
        ),
        (
            'p["fixed"]["training"]["own"]; p.nested_get("own")',
            'p["fixed"]["training"]["extra"]["own"]; p.nested_get("own")',
        ),
        ("print(trainer.own)", None),
        ("if 'own' in p.fixed.training: pass", None),
        ("training['own']", None),
    ],
)
def test_what_reads_a_setting_is_changed_with_it_or_neither(before, after):
    head = _WANTED + 'p = Parameters({"training": {%s}})\nE(p, m)\n'
    text = head % '"num_epochs": 1, "own": 2' + before
    assert [one.line for one in findings(Script(text))] == [2]
    assert migrated(Script(text)) == (text if after is None else head % '"num_epochs": 1, "extra": {"own": 2}' + after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a,  # b, c\n  pass_state=True)", "a,  # b, c\n  )"),
        ("a, pass_state=True,  # b, c\n  d=1)", "a,  # b, c\n  d=1)"),
        ("a,  # b, c\n  pass_state=True,  # d, e\n  f=1)", "a,  # b, c\n  # d, e\n  f=1)"),
        ("a  # b, c\n  , pass_state=True)", "a  # b, c\n  )"),
        ("pass_state=True, a=1)", "a=1)"),
        ("(a), pass_state=True)", "(a))"),
        ("a,  # b, c\n  pass_state=True\n  # d\n)", "a,  # b, c\n  # d\n)"),
    ],
)
def test_comments_stay_where_an_argument_goes(before, after):
    head = "from delira import Trial\nTrial("
    assert migrated(Script(head + before)) == head + after


# ------------------------------------------------------------------ the command


def test_a_long_script_takes_seconds():
    block = "class C{0}(DataManager): pass\nd{0} = DataManager({{}}, my=1)\nE(p, m, own{0}=2).run(d{0})\n"
    script = Script(f"{_WANTED}from delira.data_loading import DataManager\n" + "".join(map(block.format, range(300))))
    begin = time.perf_counter()
    found = [one for rule in REFUSED for one in rule(script)]
    assert len(found) == len([one for one in found if script.shown(one)]) == 600
    assert time.perf_counter() - begin < 10  # 1 s, where nothing else runs


def test_nothing_of_a_script_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "script.py"
    script.write_text("import torchbearer\nopen('run', 'w')\nraise SystemExit(7)\n")
    script.chmod(0o755)
    assert main(["migrate", str(script), "--write"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]
    assert script.stat().st_mode & 0o777 == 0o755


def test_several_files_are_read_before_any_is_changed(tmp_path, capsys):
    old, new, broken = (tmp_path / name for name in ("old.py", "new.py", "broken.py"))
    old.write_text("import torchbearer\n")
    new.write_text("import delira\n")
    broken.write_text("print 'of Python 2'\n")
    assert main(["migrate", str(new)]) == 0
    assert main(["migrate", str(old), str(new)]) == 1
    assert "old.py:1: refused: " in capsys.readouterr().out
    for wrong, told in ((broken, "is no script of Python 3"), (tmp_path / "missing.py", "cannot be read")):
        assert main(["migrate", str(old), str(wrong), "--write"]) == 2
        assert told in capsys.readouterr().err
    assert old.read_text() == "import torchbearer\n"


def test_a_program_reads_what_a_script_needs(tmp_path, capsys):
    script = tmp_path / "old.py"
    script.write_text("import sys\nimport torchbearer\n")
    assert main(["migrate", str(script), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["written"] is False
    (row,) = told["findings"]
    assert (row["file"], row["line"], row["kind"]) == (str(script), 2, "refused")
    assert row["change"] == ["- import torchbearer", "+ import delira as torchbearer"]


def test_a_line_that_only_its_author_can_change_is_told_and_stays(tmp_path, capsys):
    script = tmp_path / "old.py"
    script.write_text("import torchbearer.variational as v\n")
    assert main(["migrate", str(script), "--write"]) == 1
    assert "1 left for you" in capsys.readouterr().out
    assert script.read_text() == "import torchbearer.variational as v\n"


def test_every_change_is_made_by_one_call(tmp_path, capsys):
    script = tmp_path / "old.py"
    names = GONE["delira.utils", "delira.utils.imageops"].keys() | GONE["delira.utils.dict_reductions",].keys()
    names |= {"ResNet18", "BaseBackend", "WriterLoggingBackend", "Logger", "register_logger", "unregister_logger"}
    homes = {name: modules[0] for modules, gone in GONE.items() for name in gone}
    script.write_text("".join(f"from {homes[name]} import {name}\n" for name in sorted(names)) + "Logger(f, g)\n")
    assert main(["migrate", str(script), "--write"]) == 0
    assert f"{len(names)} changes made\n" in capsys.readouterr().out
    assert main(["migrate", str(script)]) == 0


def test_a_notebook_is_refused_with_the_command_that_makes_a_script_of_it(tmp_path, capsys):
    for name, text in (
        ("a.ipynb", '{"cells": []}'),
        ("a.py", '{"cells": []}'),
        ("b.py", "%matplotlib inline\nx = 1\n"),
    ):
        (tmp_path / name).write_text(text)
        assert main(["migrate", str(tmp_path / name)]) == 2
        assert "jupyter nbconvert --to script" in capsys.readouterr().err


def test_the_page_shows_what_is_printed(tmp_path, monkeypatch, capsys):
    page = (HERE.parents[1] / "docs" / "command_line.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"```python\n(import pathlib\n.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(written, "docs/command_line.md", "exec"), {})
    assert main(["migrate", "old.py"]) == 1
    assert capsys.readouterr().out == shown
