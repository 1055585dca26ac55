"""Small scripts for those who work on Perdure; standard library only."""
