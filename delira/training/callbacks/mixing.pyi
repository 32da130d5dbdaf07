from delira.callbacks.mixing import *
