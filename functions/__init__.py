"""The four functions the model may call, and what they share."""
