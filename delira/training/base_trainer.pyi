from delira.training.trainer import *
