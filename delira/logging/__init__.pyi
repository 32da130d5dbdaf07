from delira.logging.handlers import ImgSaveHandler as ImgSaveHandler
from delira.logging.handlers import MessageFileHandler as MessageFileHandler
from delira.logging.handlers import MessageHandler as MessageHandler
from delira.logging.handlers import MultiStreamHandler as MultiStreamHandler
from delira.logging.handlers import MultistreamHandler as MultistreamHandler
from delira.logging.handlers import Place as Place
from delira.logging.logger import close_logger as close_logger
from delira.logging.logger import get_logger as get_logger
from delira.logging.logger import log as log
from delira.logging.logger import LoggingContext as LoggingContext
from delira.logging.logger import make_logger as make_logger
from delira.logging.logger import MessageLogger as MessageLogger
from delira.logging.messages import Message as Message
from delira.logging.trackers import MLflowHandler as MLflowHandler
from delira.logging.trackers import TensorboardXLoggingHandler as TensorboardXLoggingHandler
from delira.logging.trackers import TrixiHandler as TrixiHandler
from delira.logging.trackers import WandbHandler as WandbHandler
from delira.logging.writers import VisdomImageHandler as VisdomImageHandler
from delira.logging.writers import VisdomImageSaveHandler as VisdomImageSaveHandler
from delira.logging.writers import VisdomImageSaveStreamHandler as VisdomImageSaveStreamHandler
from delira.logging.writers import VisdomLoggingHandler as VisdomLoggingHandler
from delira.logging.writers import VisdomStreamHandler as VisdomStreamHandler

__all__ = [
    "ImgSaveHandler",
    "LoggingContext",
    "MLflowHandler",
    "Message",
    "MessageFileHandler",
    "MessageHandler",
    "MessageLogger",
    "MultiStreamHandler",
    "MultistreamHandler",
    "Place",
    "TensorboardXLoggingHandler",
    "TrixiHandler",
    "VisdomImageHandler",
    "VisdomImageSaveHandler",
    "VisdomImageSaveStreamHandler",
    "VisdomLoggingHandler",
    "VisdomStreamHandler",
    "WandbHandler",
    "close_logger",
    "get_logger",
    "log",
    "make_logger",
]
