"""What is drawn: reports and other HTML pages, charts, plots."""
