from delira.callbacks.decorators import *
