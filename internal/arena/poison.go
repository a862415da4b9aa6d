//go:build !race

package arena

const poison = false
