"""Workers of whole programs, in fresh interpreters: scripts, notebooks, pools; how programs end, and what is left."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from test_workers import PROC, eventually

import delira

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

ROOT = Path(delira.__file__).parent.parent

HEAD = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from delira.data_loading import AbstractDataset, BaseDataManager
from delira.errors import ConfigError, WorkerError

class Own(AbstractDataset):
    def __init__(self, length=10):
        super().__init__()
        self.data = range(length)

    def __getitem__(self, index):
        return {"data": np.random.rand(3) + random.random(), "label": index}

def shift(batch, rng):
    return {**batch, "data": batch["data"] + rng.random()}

def content(manager):
    return [{key: values.tolist() for key, values in batch.items()} for batch in manager]

def children():
    tasks = Path("/proc/self/task").iterdir()
    found = [(task / "children").read_text().split() for task in tasks]
    return sorted(int(pid) for pids in found for pid in pids)

def manager(number, batch_size=2, length=10, **settings):
    return BaseDataManager(Own(length), batch_size, number, shift, worker_settings=settings)
"""


def script(body, guarded=False):
    """A program: what all of them share, and this."""
    body = textwrap.dedent(body).strip()
    if guarded:
        body = 'if __name__ == "__main__":\n' + textwrap.indent(body, "    ")
    return HEAD + "\n" + body + "\n"


class Program:
    """A script at work, in a session of its own, so that whatever it leaves behind is found."""

    def __init__(self, folder, source, *arguments, env=None):
        path = folder / "script.py"
        path.write_text(source)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        self.process = subprocess.Popen(
            [sys.executable, *(arguments or [str(path)])],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def others(self):
        """Processes of the session but the first."""
        found = set()
        for path in PROC.glob("[0-9]*/stat"):
            try:
                state, _, _, session, *_ = path.read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(session) == self.process.pid and state not in "ZX":
                found.add(int(path.parent.name))
        return found - {self.process.pid}

    def wait_for(self, line):
        """Wait until it has printed a line."""
        while (got := self.process.stdout.readline()) and got.strip() != line:
            pass
        assert got.strip() == line, self.process.communicate()

    def end(self, seconds=30, left=3):
        """Its exit code, output and errors; nothing may be left of it ``left`` seconds later."""
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        is_clean = eventually(lambda: not self.others, left)
        for pid in self.others:
            os.kill(pid, signal.SIGKILL)
        assert is_clean, "processes were left"
        return self.process.returncode, out.strip(), err.strip()


@pytest.fixture
def start(tmp_path):
    """Start a script; if a test fails, everything of it is killed."""
    programs = []

    def begin(source, *arguments, **kw):
        programs.append(Program(tmp_path, source, *arguments, **kw))
        return programs[-1]

    yield begin
    for program in programs:
        for pid in program.others | {program.process.pid}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        program.process.communicate()


# ---- scripts with and without a guard


def test_a_script_without_a_guard_works(start):
    source = script("""
        print("top")
        print(content(manager(1)) == content(manager(0)))
    """)
    assert start(source).end() == (0, "top\nTrue", "")


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_script_without_a_guard_is_refused_with_the_cure_where_it_would_run_again(start, method):
    source = script(f"""
        print("top")
        own = manager(2, start_method="{method}")
        try:
            list(own)
        except ConfigError as error:
            print(error)
        print(children())
        own.n_process_augmentation = 0
        print(content(own) == content(manager(0)))
    """)
    code, out, err = start(source).end()
    top, *message, children, is_same = out.splitlines()
    assert (code, err, top, children, is_same) == (0, "", "top", "[]", "True")
    refused, guard, cure = message
    assert f"start_method='{method}'" in refused
    assert "script.py again, and it has no guard" in refused
    assert guard.strip() == 'if __name__ == "__main__":'
    assert "n_process_augmentation=0" in cure


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_script_with_a_guard_works(start, method):
    source = script(
        f"""
        print("main")
        own = manager(2, start_method="{method}")
        print(content(own) == content(own) == content(manager(0)))
        """,
        guarded=True,
    )
    assert start(source).end() == (0, "main\nTrue", "")


@pytest.mark.parametrize("guard", ['if "__main__" == __name__:', "if __name__ == '__main__' and True:"])
def test_a_guard_may_look_otherwise(start, guard):
    source = script("print(content(manager(1, start_method='spawn')) == content(manager(0)))", guarded=True)
    source = source.replace('if __name__ == "__main__":', guard)
    assert start(source).end() == (0, "True", "")


def test_a_guard_at_the_wrong_place_is_an_error_in_time(start):
    source = script("""
        if __name__ == "__main__":
            print("main")
        try:
            list(manager(1, start_method="spawn"))
        except WorkerError as error:
            print("refused")
    """)
    code, out, _ = start(source).end(30)
    assert (code, out) == (0, "main\nrefused")


def test_a_script_may_be_a_module_a_command_or_typed(start, tmp_path):
    body = "print(content(manager(1)) == content(manager(0)))"
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(script(body))
    assert start("", "-m", "package").end() == (0, "True", "")
    assert start("", "-c", script(body)).end() == (0, "True", "")


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_command_is_not_run_again(start, method):
    body = f"print(content(manager(1, start_method='{method}')) == content(manager(0)))"
    assert start("", "-c", script(body)).end() == (0, "True", "")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_exception_class_of_the_script_arrives(start, method):
    source = script(
        f"""
        try:
            list(BaseDataManager(Own(), 2, 1, fail, worker_settings=dict(start_method="{method}")))
        except Broken as error:
            print("Broken:", error, *error.__notes__, sep="|")
        """,
        guarded=True,
    ).replace(
        "def shift",
        "class Broken(Exception):\n    pass\n\ndef fail(batch):\n    raise Broken('in the script')\n\ndef shift",
    )
    code, out, err = start(source).end()
    assert (code, err) == (0, "")
    assert out.startswith("Broken:|in the script|while transform fail worked on batch 1")


# ---- other programs that use processes


def test_a_crash_tells_its_place_where_somebody_else_handled_the_signal(start):
    """Ray turns ``faulthandler`` on as it begins, and takes its handlers away as it ends."""
    body = """
    import ctypes, faulthandler
    faulthandler.enable()
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)

    class Crashing(Own):
        def __getitem__(self, index):
            ctypes.string_at(0)

    try:
        content(BaseDataManager(Crashing(), 2, 1, worker_settings={"replacements": 0}))
    except WorkerError as error:
        print(error)
    """
    code, out, err = start(script(body)).end()
    assert (code, err) == (0, "")
    assert "was ended by SIGSEGV" in out
    assert re.search(r"most recent call first\)\n(.*\n)*.*script\.py.* in __getitem__", out)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_inside_of_pools(start, method):
    source = script(
        f"""
        import concurrent.futures, multiprocessing
        context = multiprocessing.get_context("{method}")
        with context.Pool(1) as pool:  # its processes are daemons
            print(pool.apply(inside) == content(manager(0)))
        with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
            print(pool.submit(inside).result() == content(manager(0)))
        """,
        guarded=True,
    ).replace("if __name__", "def inside():\n    return content(manager(2))\n\nif __name__")
    assert start(source).end() == (0, "True\nTrue", "")


def test_workers_inside_of_a_pool_that_is_ended(start):
    source = script("""
        import multiprocessing

        def inside(_):
            for batch in manager(2, length=1000):
                queue.put(1)
                time.sleep(0.05)

        queue = multiprocessing.Queue()
        pool = multiprocessing.get_context("fork").Pool(2)
        pool.map_async(inside, range(2))
        queue.get()
        queue.get()
        pool.terminate()
        pool.join()
        print("ended")
        queue.close()
    """)
    assert start(source).end()[:2] == (0, "ended")


def test_a_process_that_the_user_forks_ends_without_ending_the_workers(start):
    source = script("""
        import logging, warnings
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        iterator = iter(manager(2, 1))
        got = [next(iterator)]
        pid = os.fork()
        if pid == 0:
            raise SystemExit(0)
        os.waitpid(pid, 0)
        time.sleep(0.2)  # for signals to arrive
        print(content([*got, *iterator]) == content(manager(0, 1)))
    """)
    code, out, err = start(source).end()
    assert (code, out) == (0, "True")
    assert "ended by" not in err


def test_processes_of_multiprocessing_beside_the_workers(start):
    source = script("""
        import multiprocessing

        def child(queue):
            queue.put(content(own))

        own = manager(2, 1)
        iterator = iter(own)
        got = [next(iterator)]
        queue = multiprocessing.Queue()
        process = multiprocessing.Process(target=child, args=(queue,))
        process.start()
        print(queue.get() == content(manager(0, 1)))
        process.join()
        print(process.exitcode, content([*got, *iterator]) == content(manager(0, 1)))
    """)
    assert start(source).end() == (0, "True\n0 True", "")


@pytest.mark.parametrize(
    "reaper", ["signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "threading.Thread(target=reap, daemon=True).start()"]
)
def test_somebody_else_may_ask_how_children_ended(start, reaper):
    source = script(f"""
        import threading

        def reap():
            while True:
                try:
                    os.waitpid(-1, 0)
                except ChildProcessError:
                    time.sleep(0.01)

        {reaper}
        own = manager(2, 1)
        iterator = iter(own)
        got = [next(iterator)]
        os.kill(children()[0], signal.SIGKILL)
        print(content([*got, *iterator]) == content(manager(0, 1)))
        own.close()
        print("closed")
    """)
    code, out, err = start(source).end()
    assert (code, out) == (0, "True\nclosed")
    assert "Traceback" not in err


# ---- how programs end


ENDINGS = {
    "an iterator at work": ("iterator = iter(manager(2, 1)); next(iterator)", 0),
    "idle workers": ("own = manager(2); list(own)", 0),
    "an iterator in a list of itself": ("one = iter(manager(2, 1)); next(one); own = [one]; own.append(own)", 0),
    "two iterators": ("own = manager(2, 1); both = iter(own), iter(own); [next(one) for one in both]", 0),
    "sys.exit in the loop": ("for batch in manager(2, 1): sys.exit(7)", 7),
    "an exception in the loop": ("for batch in manager(2, 1): raise ValueError('of the user')", 1),
    "a thread that iterates": (
        "import threading; t = threading.Thread(target=lambda: list(manager(2, 1))); t.start()", 0
    ),
    "workers that are stuck": (
        "one = manager(2, 1); one.transforms = lambda b: b if 0 in b['label'] else time.sleep(99); next(iter(one))", 0
    ),
    "workers that stuck, kept": (
        "one = manager(2, 1); one.transforms = lambda b: b if 0 in b['label'] else time.sleep(99)\n"
        "iterator = iter(one); next(iterator)", 0
    ),
    "workers that are stopped": (
        "iterator = iter(manager(2, 1)); next(iterator); [os.kill(pid, signal.SIGSTOP) for pid in children()]", 0
    ),
    "a spawned worker": ("iterator = iter(manager(1, 1, start_method='spawn')); next(iterator)", 0),
    "a worker of a fork server": ("iterator = iter(manager(1, 1, start_method='forkserver')); next(iterator)", 0),
}  # fmt: skip


@pytest.mark.sampled("half")
@pytest.mark.parametrize("name", ENDINGS)
def test_a_program_ends_cleanly_and_at_once(start, name):
    body, expected = ENDINGS[name]
    source = script(f"{body}\nprint('last line')", guarded=True)
    program = start(source)
    code, out, err = program.end(15, left=1)
    assert code == expected
    if expected:
        assert err.count("Traceback") == (expected == 1)
        assert err == "" or err.endswith("ValueError: of the user")
    else:
        assert (out, err) == ("last line", "")


def test_workers_that_only_the_garbage_collector_finds_end_without_a_word(start):
    # an exception that is kept makes a cycle with the frame that iterated, and the collector ends whom it likes first
    source = script("""
        import gc, warnings
        warnings.simplefilter("error")

        def fail(batch):
            if batch["label"][0] == 3:
                raise ValueError("of the user")
            return batch

        def use():
            iterator = iter(BaseDataManager(Own(), 1, 2, fail))
            got = [next(iterator) for _ in range(3)]
            try:
                next(iterator)
            except ValueError as error:
                kept = error
            iterator.seek(4)
            got += iterator
            return kept

        for threshold in range(20, 500, 20):
            gc.set_threshold(threshold, 3, 3)
            use()
            gc.collect()
        print(children())
    """)
    assert start(source).end() == (0, "[]", "")


def test_what_the_user_registered_for_the_end_runs_once(start):
    source = script("""
        import atexit
        atexit.register(print, "at exit")
        print("once", end=" ")
        own = manager(2, 1)
        list(own)
        own.close()
        next(iter(own))
    """)
    assert start(source).end() == (0, "once at exit", "")


LOOPS = {
    "sleep": "time.sleep(99)",
    "loop": "while True: pass",
    "quick": "pass",
}


def endless(what, method="fork"):
    """A script whose workers do something for ever, and the main process waits."""
    return script(
        f"""
        one = manager(2, 1, 100_000, time_limit=None, start_method="{method}")
        one.transforms = stall
        iterator = iter(one)
        for _ in range(4):  # both workers made some of them
            next(iterator)
        print("ready", flush=True)
        for batch in iterator:
            pass
        """,
        guarded=True,
    ).replace(
        "def shift",
        f"def stall(batch):\n    if batch['label'][0] > 3:\n        {what}\n    return batch\n\ndef shift",
    )


@pytest.mark.sampled("values")
@pytest.mark.parametrize("what", LOOPS)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ctrl_c_ends_a_program_and_its_workers(start, what, method):
    program = start(endless(LOOPS[what], method))
    program.wait_for("ready")
    os.killpg(program.process.pid, signal.SIGINT)
    code, _, err = program.end(5, left=1)
    assert code == -signal.SIGINT
    assert err.count("Traceback") == 1
    assert err.endswith("KeyboardInterrupt")


@pytest.mark.sampled("values")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("what", LOOPS)
def test_workers_end_with_a_program_that_is_killed(start, what, number):
    program = start(endless(LOOPS[what]))
    program.wait_for("ready")
    assert len(program.others) == 2
    program.process.send_signal(number)
    assert program.end(5, left=3)[0] == -number


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_workers_of_every_kind_end_with_a_program_that_is_killed(start, method):
    program = start(endless(LOOPS["loop"], method))
    program.wait_for("ready")
    program.process.kill()
    assert program.end(5, left=3)[0] == -signal.SIGKILL


@pytest.mark.parametrize("what", ["stopped", "loop in C"])
def test_even_workers_that_cannot_look_after_themselves_end_with_a_program_that_is_killed(start, what):
    stall = {
        "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
        "loop in C": "__import__('re').match(r'(a|aa)+$', 'a' * 60 + 'b')",
    }
    program = start(endless(stall[what]))
    program.wait_for("ready")
    time.sleep(0.3)
    program.process.kill()
    assert program.end(5, left=3)[0] == -signal.SIGKILL


@pytest.mark.slow
def test_a_program_that_is_stopped_for_a_while_goes_on(start):
    source = script("""
        import logging
        logging.basicConfig(level=logging.WARNING)
        one = manager(2, 1, 30, time_limit=1.6)
        one.transforms = lambda batch: time.sleep(0.03) or batch
        print("ready", flush=True)
        print(len(list(one)))
    """)
    program = start(source)
    program.wait_for("ready")
    time.sleep(0.2)
    os.killpg(program.process.pid, signal.SIGSTOP)
    time.sleep(1.8)
    os.killpg(program.process.pid, signal.SIGCONT)
    assert program.end(10) == (0, "30", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_to_all_processes_that_the_program_handles_does_not_end_the_workers(start, number):
    # what a batch system sends before it takes the machine away: the program saves and ends by itself
    source = script(f"""
        handled = []
        signal.signal({int(number)}, lambda *_: handled.append(1))
        iterator = iter(manager(2, 1, 300))
        got = [next(iterator) for _ in range(4)]
        print("ready", flush=True)
        while not handled:
            got.append(next(iterator))
            time.sleep(0.01)
        print(content([*got, *iterator]) == content(manager(0, 1, 300)))
    """)
    program = start(source)
    program.wait_for("ready")
    os.killpg(program.process.pid, number)
    assert program.end() == (0, "True", "")


# ---- limits of the system


@pytest.mark.slow
def test_more_workers_than_the_system_allows_are_refused_with_how_many_there_can_be(start):
    source = script("""
        import re, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        own = manager(500, 1, 1000)
        files = len(os.listdir("/proc/self/fd"))
        try:
            list(own)
        except WorkerError as error:
            print(error)
            number = int(re.search(r"n_process_augmentation=(\\d+)", str(error))[1])
        print(len(os.listdir("/proc/self/fd")) - files)
        own.n_process_augmentation = number
        print(len(content(own)))
    """)
    code, out, err = start(source).end()
    assert (code, err) == (0, "")
    error, leaked, batches = out.splitlines()
    assert error.startswith("only ")
    assert "of 500 worker processes could be started" in error
    assert "ulimit -n" in error
    assert int(leaked) <= 2  # multiprocessing itself leaves a pipe behind when the next one fails
    assert batches == "1000"


def test_processes_that_cannot_be_forked_are_an_error_with_how_many_there_are(start):
    source = script("""
        original, forks = os.fork, []

        def fork():
            if len(forks) == 3:
                raise BlockingIOError(11, "Resource temporarily unavailable")
            forks.append(1)
            return original()

        os.fork = fork  # the superuser, as whom tests often run, has no limit
        try:
            list(manager(8, 1, 1000))
        except WorkerError as error:
            print(error)
        os.fork = original
        print(len(content(manager(3, 1, 1000))))
    """)
    code, out, err = start(source).end()
    assert (code, err) == (0, "")
    error, batches = out.splitlines()
    assert error.startswith("only 3 of 8 worker processes could be started: ")
    assert "temporarily unavailable" in error
    assert re.search(r"n_process_augmentation=[123] or less", error)
    assert "ulimit -u" in error
    assert batches == "1000"


def test_many_batches_are_kept_with_few_files(start):
    source = script("""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

        def enlarge(batch, rng):
            return {**batch, "image": rng.random((2, 10_000)), "mask": np.full(70_000, batch["label"][0], np.int8)}

        def make(number):
            return BaseDataManager(Own(500), 1, number, enlarge)

        kept = list(make(4))
        with open(__file__):
            pass
        pairs = zip(kept, make(0))
        print(len(kept), all(np.array_equal(ours[key], theirs[key]) for ours, theirs in pairs for key in ours))
    """)
    assert start(source).end() == (0, "500 True", "")


# ---- torch


@pytest.mark.slow
def test_torch_with_threads_before_the_fork_and_in_the_transform(start):
    pytest.importorskip("torch")
    source = script("""
        import torch

        def compute():
            image = torch.nn.functional.conv2d(torch.ones(4, 3, 64, 64), torch.ones(8, 3, 5, 5))
            return (torch.ones(400, 400) @ torch.ones(400, 400)).sum().item() + image.sum().item()

        def calculate(batch):
            return {**batch, "result": np.array(compute())}

        torch.set_num_threads(4)
        print(torch.get_num_threads(), compute())
        own = BaseDataManager(Own(), 1, 2, calculate, worker_settings={"time_limit": 20})
        print(len(content(own)), compute())
    """)
    code, out, err = start(source).end(60)
    first, second = out.splitlines()
    assert (code, err) == (0, "")
    assert first.split()[0] == "4"
    assert second.split() == ["10", first.split()[1]]


@pytest.mark.slow
def test_what_torch_computes_in_a_transform_does_not_depend_on_the_threads_of_this_process(start):
    pytest.importorskip("torch")
    source = script("""
        import torch

        def reduce(batch, rng):
            values = torch.from_numpy(rng.random(3_000_000, dtype=np.float32))
            return {**batch, "sum": np.array(values.sum().item()), "std": np.array(values.std().item())}

        torch.set_num_threads(4)
        alone, ahead = (content(BaseDataManager(Own(), 2, number, reduce)) for number in (0, 2))
        print(alone == ahead, torch.get_num_threads())
    """)
    assert start(source).end(60) == (0, "True 4", "")


def test_what_numpy_computes_in_a_transform_does_not_depend_on_the_threads_of_this_process(start):
    source = script("""
        def multiply(batch, rng):
            values = rng.random((300, 5000), dtype=np.float32)
            return {**batch, "product": values @ values[0], "square": (values @ values.T).sum(axis=0)}

        alone, ahead = (content(BaseDataManager(Own(), 5, number, multiply)) for number in (0, 2))
        print(alone == ahead)
    """)
    assert start(source, env={"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}).end(60) == (0, "True", "")


@pytest.mark.slow
def test_training_has_its_threads_back_after_a_batch(start):
    pytest.importorskip("torch")
    source = script("""
        import threadpoolctl, torch

        def threads():
            pools = [(pool["user_api"], pool["num_threads"]) for pool in threadpoolctl.threadpool_info()]
            return sorted(pools), torch.get_num_threads(), torch.__config__.parallel_info()

        threads()
        for number in (2, 0):
            before = threads()
            list(manager(number))
            print(threads() == before)
        torch.set_num_threads(3)
        before = threads()
        iterator = iter(manager(0))
        next(iterator)
        print(threads() == before)
    """)
    environment = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2")
    assert start(source, env=environment).end(60) == (0, "True\nTrue\nTrue", "")


# ---- notebooks


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_classes_of_a_notebook_work_with_every_start_method(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = [
        HEAD,
        "print([content(manager(2, start_method=m)) == content(manager(0)) for m in ('fork', 'forkserver', 'spawn')])",
        # a class that was changed and run again
        "class Own(Own):\n    def __getitem__(self, index):\n        return {'data': np.ones(3), 'label': -index}",
        "print([content(manager(2, start_method=m)) == content(manager(0)) for m in ('fork', 'spawn')])",
        "iterator = iter(manager(2, 1)); print(len(next(iterator)))",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    os.environ["PYTHONPATH"], before = str(ROOT), os.environ.get("PYTHONPATH")
    try:
        nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
    printed = ["".join(output.get("text", "") for output in cell.outputs).strip() for cell in notebook.cells]
    assert printed == ["", "[True, True, True]", "", "[True, True]", "2"]
