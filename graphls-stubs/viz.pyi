from graphls.inspect.viz import *
