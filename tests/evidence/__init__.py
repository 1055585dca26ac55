"""What the evidence pages say and which tests show it: plain lists, from which pages are made and tests are chosen."""
