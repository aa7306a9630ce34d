"""Downloads over HTTP that resume, with their progress."""
