from graphls.inspect.testing import *
