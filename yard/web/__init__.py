"""`make web`: a page in the browser for everybody who uses the cluster."""
