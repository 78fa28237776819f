"""servingstack: one typed input becomes a planned, provisioned and monitored model-serving stack."""
