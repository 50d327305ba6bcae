from graphls.step.export.inference import *
