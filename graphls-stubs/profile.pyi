from graphls.inspect.profile import *
