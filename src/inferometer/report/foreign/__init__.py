"""Writers of the result files of other load testers."""
