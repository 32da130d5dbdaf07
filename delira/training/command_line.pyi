from delira.experiments.parameters import *
