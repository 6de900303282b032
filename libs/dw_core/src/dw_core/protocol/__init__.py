"""What the two planes say on the wire: versions, capabilities, envelopes, reasons and request shapes."""
