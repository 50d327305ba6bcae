from graphls.distributed.communication import *
