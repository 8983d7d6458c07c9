"""What a search and its verdict say: as parts for terminal, card and page, as one HTML file, and for a paper."""
