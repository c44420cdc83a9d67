"""``python -m ascend_supervisor.ctl``."""

from ascend_supervisor.ctl.main import main

if __name__ == "__main__":
    main()
