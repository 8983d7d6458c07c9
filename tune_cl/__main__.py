import sys

from tune_cl.cli import main

sys.exit(main())
