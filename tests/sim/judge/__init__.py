"""What must be true of a partition, by the written rules alone (docs/). Nothing here imports the product: it reads
stored files as JSON, parses configuration by itself, and reckons floors, plans, merges and debts anew."""
