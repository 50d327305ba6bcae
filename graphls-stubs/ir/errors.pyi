from graphls.base.errors import *
