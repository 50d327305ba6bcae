from graphls.nn.amp import *
