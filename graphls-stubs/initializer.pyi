from graphls.nn.initializer import *
