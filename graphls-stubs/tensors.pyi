from graphls.frontend.tensors import *
