from graphls.interop.adapters import *
