module git.example.org/toyspec/toyspec/reference/go

go 1.22
