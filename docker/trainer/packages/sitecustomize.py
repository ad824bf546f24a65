"""Has Python read the .pth files of what a project requires, as it does in folders of its own."""

import site
from pathlib import Path

site.addsitedir(str(Path(__file__).parent))
