"""What a program has set of its environment, as far as other machines are told."""

from delira.execution.environment import environment_set


def test_variables_that_a_program_has_set_are_told_without_secrets_and_what_belongs_to_its_machine(monkeypatch):
    before = environment_set()
    assert not {"PATH", "HOME", "PYTEST_CURRENT_TEST"} & {*before}
    for name in ("KERAS_BACKEND", "XLA_FLAGS"):
        monkeypatch.setenv(name, f"--{name}-of-this-test")
    for name in ("WANDB_SERVICE", "LD_PRELOAD", "VIRTUAL_ENV", "MASTER_PORT", "LOCAL_RANK", "MPLBACKEND", "TEMP"):
        monkeypatch.setenv(name, "of this machine")
    for name in ("WANDB_API_KEY", "PGPASSWORD", "HF_TOKEN", "RAY_ADDRESS", "CUDA_VISIBLE_DEVICES", "PATH", "TMPDIR"):
        monkeypatch.setenv(name, "of this test")
    monkeypatch.setenv("DATABASE", "postgres://me:hidden@host/x")
    told = {name: value for name, value in environment_set().items() if before.get(name) != value}
    assert told == {name: f"--{name}-of-this-test" for name in ("KERAS_BACKEND", "XLA_FLAGS")}
