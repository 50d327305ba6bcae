from graphls.runtime.context import *
