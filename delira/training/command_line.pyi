from delira.experiments.command_line import *
