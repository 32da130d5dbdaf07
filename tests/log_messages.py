"""Messages sent to a handler as Python's logging does it."""

import logging


def send(handler, *messages):
    logger = logging.Logger("mine")
    logger.addHandler(handler)
    for message in messages:
        logger.info(message)
    handler.close()
