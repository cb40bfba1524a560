"""Run the command line with ``python -m benchtrial``."""

from benchtrial.orchestrator.cli import main

if __name__ == "__main__":
    main()
