"""The same mail and the same change of code on other systems, counted at a mail server of its own process."""
