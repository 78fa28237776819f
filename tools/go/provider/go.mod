module servingstack.tools/provider

go 1.26.0
