from delira.callbacks.imaging import *
