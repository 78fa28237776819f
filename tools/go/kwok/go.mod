module servingstack.tools/kwok

go 1.26.0
