"""What a notebook has where nothing is said; the command line shows it without loading more."""

# Below the checkout: where the files of notebooks are unless a folder is named.
NOTEBOOKS = "notebooks"
# Minutes without use after which a notebook ends by itself, and the longest.
IDLE_MINUTES, MOST_MINUTES = 120, 7 * 24 * 60
