from delira.trial import *
