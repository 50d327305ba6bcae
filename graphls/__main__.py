"""`python -m graphls`."""

from graphls.cli import main

raise SystemExit(main())
