"""What a guarded call costs, beside the least that SQLite could ask for the same durability."""
