module servingstack.tools/sloth

go 1.26.0
