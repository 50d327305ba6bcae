from graphls.inspect.diagnosis import *
