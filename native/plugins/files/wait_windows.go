package files

// nonblock is not needed: no pipe is among the files.
const nonblock = 0
