//go:build bench_nothing

package main

const (
	keepsRecords = false
	executed     = false
)
