from graphls.step.api import *
