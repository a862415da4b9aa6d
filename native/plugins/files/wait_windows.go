package files

// nonblock is not needed: there are no pipes among the files.
const nonblock = 0
