"""Each answer as a document: a file for each kind, and one for each part that several of them show."""
