from delira.callbacks import *
