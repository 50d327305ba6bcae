from graphls.base.log import *
