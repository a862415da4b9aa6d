//go:build unix && !(linux && (amd64 || arm64))

package sandbox

const defaultPath = "/usr/local/bin:/usr/bin:/bin"
