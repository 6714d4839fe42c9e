"""Settings of the dataset-layout tests."""

import os

os.environ["OUTDATED_IGNORE"] = "1"  # importing ogb would ask the network for a newer version
