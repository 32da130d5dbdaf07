"""Messages of a run, and where they are shown: files, TensorBoard, visdom, trixi, MLflow, Weights & Biases.

Handlers are those of Python's logging; the root logger is left alone.
"""

from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "delira.logging.handlers": "ImgSaveHandler MessageFileHandler MessageHandler MultiStreamHandler"
        " MultistreamHandler Place",
        "delira.logging.logger": "LoggingContext MessageLogger close_logger get_logger log make_logger",
        "delira.logging.messages": "Message",
        "delira.logging.trackers": "MLflowHandler TensorboardXLoggingHandler TrixiHandler WandbHandler",
        "delira.logging.writers": "VisdomImageHandler VisdomImageSaveHandler VisdomImageSaveStreamHandler"
        " VisdomLoggingHandler VisdomStreamHandler",
    },
)
