module toyspec

go 1.22
