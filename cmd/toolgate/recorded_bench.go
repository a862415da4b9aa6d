//go:build bench_noexecutions && !bench_nothing

package main

const (
	keepsRecords = true
	executed     = false
)
