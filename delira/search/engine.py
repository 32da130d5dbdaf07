"""Optuna, imported without what tqdm says of a notebook that has no widgets."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import optuna as optuna
    from optuna.storages.journal import JournalFileBackend as JournalFileBackend
    from optuna.trial import TrialState as TrialState
