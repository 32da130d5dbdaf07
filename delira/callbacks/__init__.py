"""Callbacks: what happens beside the loop, and the decorators that make them of functions of the state.

The accumulation of gradients over several batches is none of them, but a setting of trainers and trials:
``gradient_accumulation_steps``.
"""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.logging.writers": "VisdomParams close_writer get_writer",
        "delira.callbacks.abstract_callback": "AbstractCallback Callback CallbackList",
        "delira.callbacks.checkpoints": "Best Interval ModelCheckpoint MostRecent",
        "delira.callbacks.confusion": "PyCM",
        "delira.callbacks.decorators": (
            "add_to_loss bind_to on_backward on_checkpoint on_criterion on_criterion_validation on_end "
            "on_end_epoch on_end_training on_end_validation on_forward on_forward_validation on_init on_sample "
            "on_sample_validation on_start on_start_epoch on_start_training on_start_validation on_step_training "
            "on_step_validation once once_per_epoch only_if traceable"
        ),
        "delira.callbacks.monitor": "EarlyStopping TerminateOnNaN",
        "delira.callbacks.history": "CSVLogger HistoryWriter",
        "delira.callbacks.imaging": "CachingImagingCallback FromState ImagingCallback MakeGrid make_grid",
        "delira.callbacks.initialisers": (
            "KaimingNormal KaimingUniform LsuvInit LSUV=LsuvInit WeightInit XavierNormal XavierUniform ZeroBias"
        ),
        "delira.callbacks.live_view": "LiveLossPlot",
        "delira.callbacks.mixing": (
            "BCPlus CutMix Cutout LabelSmoothingRegularisation ManifoldMixup MixedTargets Mixup RandomErase "
            "SamplePairing bc_loss mixup_loss"
        ),
        "delira.callbacks.profiler": "Profiler TimerMetric",
        "delira.callbacks.progress": "ConsolePrinter ProgressBar Tqdm",
        "delira.callbacks.schedules": (
            "CosineAnnealingLR CyclicLR ExponentialLR LambdaLR MultiStepLR OneCycleLR ReduceLROnPlateau StepLR "
            "TorchScheduler WarmupCosine"
        ),
        "delira.callbacks.tensorboard": "AbstractTensorBoard TensorBoard TensorBoardText TensorBoardWriter",
        "delira.callbacks.tensorboard_images": "TensorBoardImages TensorBoardProjector",
        "delira.callbacks.unpack_state": "UnpackState",
        "delira.callbacks.weights": (
            "ExponentialMovingAverage FreezeUnfreeze GradientClipping GradientNormClipping L1WeightDecay L2WeightDecay "
            "SWA WeightDecay learned_weights"
        ),
        "delira.trial.class_appearance": "ClassAppearanceModel",
    },
)
