"""An account of a vendor's, used like a key: what a login gave, how tokens are had and renewed."""
