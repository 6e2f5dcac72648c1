"""Many draws at once. The loop over draws is the measure: whatever runs at once gives what the loop gives."""
