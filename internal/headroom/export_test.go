package headroom

// What the tests of the package use of it.
var (
	CgroupIn      = cgroupIn
	MemoryLimitIn = memoryLimitIn
	Used          = used
	Room          = room
	InUse         = inUse
)
