from graphls.nn.quantization import *
