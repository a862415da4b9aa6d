// Package redistest runs a Redis server for tests. It is for tests.
package redistest
