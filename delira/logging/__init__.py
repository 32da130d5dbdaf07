"""Messages of a run, and where they are shown: files, TensorBoard, visdom, trixi, MLflow, Weights & Biases.

Handlers are those of Python's logging; the root logger is left alone.
"""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.logging.contexts": "LoggingContext close_logger get_logger log make_logger",
        "delira.logging.handlers": "MessageHandler MultiStreamHandler MultistreamHandler Place",
        "delira.logging.image_files": "ImgSaveHandler",
        "delira.logging.logger": "MessageLogger",
        "delira.logging.message_file": "MessageFileHandler",
        "delira.logging.messages": "Message",
        "delira.logging.tensorboard": "TensorboardXLoggingHandler",
        "delira.logging.trackers": "MLflowHandler WandbHandler",
        "delira.logging.trixi_handler": "TrixiHandler",
        "delira.logging.visdom_handlers": "VisdomImageHandler VisdomImageSaveHandler VisdomImageSaveStreamHandler"
        " VisdomLoggingHandler VisdomStreamHandler",
    },
)
