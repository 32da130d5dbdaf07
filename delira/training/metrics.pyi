from delira.metrics import *
