"""The steps of `infer`, one a module: incidents, outcome, root, silent culprits, first rank, ending, confidence."""
