from delira.experiments.experiment import *
